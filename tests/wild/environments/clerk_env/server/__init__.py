"""The server of the clerk."""
