"""The server of the Gymnasium environment; it needs Gymnasium."""
