"""The server of the drill, whose package imports its environment."""

from .environment import DrillEnvironment

__all__ = ["DrillEnvironment"]
