"""The text interface that follows from the schemas of an environment."""
