"""Ours beside the bare library that an environment wraps."""
