"""The text interface that follows from schemas."""
