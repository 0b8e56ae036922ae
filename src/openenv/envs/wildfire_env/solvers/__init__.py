"""A good player of wildfire."""
