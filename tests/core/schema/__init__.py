"""JSON Schemas of messages."""
