"""What `openenv envs --measure` plays: tasks of an environment with what is known of them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from openenv.core.env_server.interfaces import Environment

_STEPS_A_LOOK = 20
"""Steps between two looks at the clock."""


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
    max_steps: int | None = None
    """Steps after which an episode of a player is stopped; None: no limit."""


def in_process(
    make_environment: Callable[[], Environment[Any, Any, Any]], choose: Callable[[Any, Random], Any], **reset: Any
) -> Callable[[float], float]:
    """The `play_bare` of an environment that wraps no library: the environment itself, without a server.

    choose: a random action for an observation. reset: keywords of every reset.
    """

    def play(seconds: float) -> float:
        environment, rng, steps, seed = make_environment(), Random(0), 0, 0
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            observation = environment.reset(seed=seed, **reset)
            seed += 1
            while not observation.done and time.perf_counter() - started < seconds:
                observation = environment.step(choose(observation, rng))
                steps += 1
        return steps / (time.perf_counter() - started)

    return play


def gymnasium_steps_per_second(env: Any, seconds: float) -> float:
    """Play a `gymnasium.Env` at random for about so many seconds. It draws its actions from its action space."""
    env.reset(seed=0)
    env.action_space.seed(0)
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(_STEPS_A_LOOK):
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        steps += _STEPS_A_LOOK
    return steps / (time.perf_counter() - began)
