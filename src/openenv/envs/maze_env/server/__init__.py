"""The server of the maze environment."""
