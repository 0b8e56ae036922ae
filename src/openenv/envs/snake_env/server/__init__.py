"""The server of the snake environment."""
