"""Trains agents' programs: their calls of the model, captured token by token."""
