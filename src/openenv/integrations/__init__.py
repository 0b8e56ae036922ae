"""Adapters to other libraries' interfaces, each importing its own library only."""
