"""What `openenv envs --measure` plays: tasks of an environment with what is known of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any


@dataclass(frozen=True, kw_only=True)
class MeasuredTask:
    """One task of an environment: its speed limit and its players."""

    reset: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of every reset."""
    play_bare: Callable[[float], float]
    """Plays the library that the environment wraps, or the environment itself where it wraps none, at random and in
    this process, for about so many seconds; returns steps per second. It is the limit of a client's steps."""
    heuristic: Callable[[Any, Random], Any] | None = None
    """A known good player: an observation and random numbers -> an action."""
    best_return: float | None = None
    """The exact mean return of best play; None: not known."""
    num_episodes: int = 1000
    """Episodes of each player."""
