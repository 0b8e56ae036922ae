"""The checks. Each takes a target and returns a result."""
