"""What the endpoint of agents' programs costs."""
