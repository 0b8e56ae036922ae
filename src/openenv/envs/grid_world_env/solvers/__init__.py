"""Best play of a grid world."""
