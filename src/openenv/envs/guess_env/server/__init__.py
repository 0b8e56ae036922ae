"""The server of the guess environment."""
