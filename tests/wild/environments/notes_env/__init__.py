"""Notes that an agent writes and submits with tools."""

from .client import NotesEnv

__all__ = ["NotesEnv"]
