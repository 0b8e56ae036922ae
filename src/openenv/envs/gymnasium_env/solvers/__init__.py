"""Best play of the environments that publish their tables of transitions."""
