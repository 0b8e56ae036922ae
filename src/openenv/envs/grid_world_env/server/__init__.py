"""The server of the grid world environment."""
