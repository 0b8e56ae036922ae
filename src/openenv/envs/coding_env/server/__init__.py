"""Server of the coding environment."""
