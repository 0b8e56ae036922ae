"""Containers of an engine with Docker's API: their isolation, their owner, and the provider that runs them."""
