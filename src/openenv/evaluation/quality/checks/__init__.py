"""One check of an environment each: it takes a target and returns a result."""
