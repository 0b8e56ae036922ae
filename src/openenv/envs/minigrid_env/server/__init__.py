"""The server of MiniGrid; it needs minigrid."""
