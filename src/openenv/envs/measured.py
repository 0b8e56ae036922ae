"""What `openenv envs --measure` plays: tasks of an environment with what is known of them."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True)
class Optimum:
    """The exact result of best play."""

    mean_return: float
    win_rate: float = float("nan")
    """The share of episodes with a return above 0, from 0 to 1; NaN: not known."""


@dataclass(frozen=True, kw_only=True)
class MeasuredTask:
    """One task of an environment: its speed limit and its players."""

    reset: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of every reset."""
    bare: Callable[..., Iterator[int]] | None = None
    """Random play of the library that the environment wraps, in this process, with the keywords of `reset`. It yields
    the steps since the last time, without end. None: there is no library beside the environment."""
    heuristic: Callable[[Any, Random], Any] | None = None
    """A known good player: an observation and random numbers -> an action."""
    best_return: float | None = None
    """The exact mean return of best play; None: not known."""
    num_episodes: int = 1000
    """Episodes of each player."""
    max_steps: int | None = None
    """Steps after which an episode of a player is stopped; None: no limit."""


def steps_per_second(play: Iterator[int], seconds: float) -> float:
    """The speed of play for about so many seconds. Its first part is not counted: it loads what is played."""
    next(play)
    steps, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds or not steps:
        steps += next(play)
    return steps / passed


def gymnasium_steps(env: Any) -> Iterator[int]:
    """Random play of a `gymnasium.Env`, which draws its actions from its action space, and is closed in the end."""
    try:
        env.reset(seed=0)
        env.action_space.seed(0)
        while True:
            for _ in range(20):  # between two looks at the clock
                *_, terminated, truncated, _ = env.step(env.action_space.sample())
                if terminated or truncated:
                    env.reset()
            yield 20
    finally:
        env.close()
