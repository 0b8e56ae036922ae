"""A good player of snake."""
