"""The server of the notes."""
