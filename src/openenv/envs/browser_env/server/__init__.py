"""The server of the web tasks."""
