"""The server of the wildfire environment."""
