"""Players of MiniGrid: shortest plans that know the whole grid, and a walker that sees what the agent sees."""
