"""A model of 1.5 billion weights on a GPU."""
