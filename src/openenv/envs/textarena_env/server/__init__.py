"""The server of TextArena's games."""
