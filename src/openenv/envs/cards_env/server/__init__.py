"""The server of the card games."""
