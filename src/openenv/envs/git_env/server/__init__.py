"""The server of the git environment."""
