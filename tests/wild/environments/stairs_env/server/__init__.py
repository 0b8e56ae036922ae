"""The server of the stairs."""
