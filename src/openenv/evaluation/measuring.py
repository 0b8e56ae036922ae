"""Measures bundled environments: steps per second beside the bare library, players, and what their checks found."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from openenv.auto.environment import ServedEnvironment, named_environment
from openenv.core.utils import run_async_safely
from openenv.envs.catalog import CatalogEntry
from openenv.envs.measured import MeasuredTask, steps_per_second
from openenv.evaluation.evaluator import evaluate
from openenv.evaluation.intervals import Summary
from openenv.evaluation.quality import CheckRow, check_environment
from openenv.policies.base import Policy
from openenv.policies.baselines import RandomPolicy
from openenv.policies.declared import FunctionPolicy

ROUNDS = 3
"""Measurements of each speed; client and bare library take turns."""
SHOWN_CHECKS = ("same seed", "same seed, other process", "snapshots", "isolation")
"""Checks of `openenv check` that a measurement shows."""
_MOST_STEPS = 300
_MOST_SECONDS = 300.0
"""For the checks of an environment: TextArena starts a process for each session, and takes three minutes."""
_NUM_EPISODES = 20

OnProgress = Callable[[str], None]
"""Called with what is measured next."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One task of an environment."""

    environment: str
    task: str
    client_steps: float
    """Steps per second of one synchronous client, over TCP, with the server in a process of its own. Median."""
    bare_steps: float
    """Steps per second of the bare library in this process. Median."""
    random: Summary
    heuristic: Summary | None
    """None: the environment comes with no heuristic for the task."""
    best_return: float | None
    checks: Mapping[str, str]
    """The status of SHOWN_CHECKS: pass, warn, fail or skip."""


def measure(entry: CatalogEntry, *, seconds: float = 1.0, on_progress: OnProgress) -> Iterator[Measurement]:
    """Measure each of an environment's measured tasks. seconds: of each measurement of speed.

    Raises ImportError if its extra is not installed.
    """
    named = named_environment(entry.name)
    on_progress(f"{entry.name}: checks")
    checks = _statuses(check_environment(entry.name, seconds=_MOST_SECONDS))
    for name, task in entry.load_measured().items():
        with named.served() as served:
            on_progress(f"{entry.name}, {name}: speed")
            client_steps, bare_steps = _speeds(served, entry, task, seconds)
            on_progress(f"{entry.name}, {name}: players")
            summaries = run_async_safely(_play(served, task))
        yield Measurement(
            environment=entry.name,
            task=name,
            client_steps=client_steps,
            bare_steps=bare_steps,
            random=summaries[0],
            heuristic=summaries[1] if len(summaries) > 1 else None,
            best_return=task.best_return,
            checks=checks,
        )


def _statuses(rows: Sequence[CheckRow]) -> dict[str, str]:
    return {row.check: row.result.status for row in rows if row.check in SHOWN_CHECKS}


def _speeds(served: ServedEnvironment, entry: CatalogEntry, task: MeasuredTask, seconds: float) -> tuple[float, float]:
    """Steps per second of a client and of the bare library, or of the environment in this process if it wraps none."""
    with served.client() as client, ExitStack() as stack:
        episodes = [_recorded(client, task, seed, _random_policy(served, seed)) for seed in range(_NUM_EPISODES)]
        bare = task.bare and partial(task.bare, **task.reset)
        if bare is None:
            bare = partial(_replayed, stack.enter_context(closing(entry.load_environment())), task, episodes)
        rounds = [
            (steps_per_second(_replayed(client, task, episodes), seconds), steps_per_second(bare(), seconds))
            for _ in range(ROUNDS)
        ]
    client_rounds, bare_rounds = zip(*rounds, strict=True)
    return statistics.median(client_rounds), statistics.median(bare_rounds)


def _random_policy(served: ServedEnvironment, seed: int) -> RandomPolicy:
    return RandomPolicy(seed, text=served.text)


def _recorded(client: Any, task: MeasuredTask, seed: int, policy: RandomPolicy) -> list[Any]:
    """The actions of an episode of random play: its replay measures no choice of actions."""
    actions: list[Any] = []
    result = client.reset(seed=seed, **task.reset)
    while not result.done and len(actions) < _MOST_STEPS:
        actions.append(policy.select_action(result.observation))
        result = client.step(actions[-1])
    return actions


def _replayed(player: Any, task: MeasuredTask, episodes: Sequence[Sequence[Any]]) -> Iterator[int]:
    """Episodes of a client or of an environment in this process, again and again. Resets are no steps."""
    while True:
        for seed, actions in enumerate(episodes):
            player.reset(seed=seed, **task.reset)
            for action in actions:
                player.step(action)
            yield len(actions)


async def _play(served: ServedEnvironment, task: MeasuredTask) -> list[Summary]:
    """The results of random play and of the heuristic, on equal seeds."""
    policies: list[Policy] = [_random_policy(served, 0)]
    if task.heuristic is not None:
        policies.append(FunctionPolicy("heuristic", task.heuristic, 0))
    return await evaluate(
        served.base_url,
        served.client,
        policies,
        task.num_episodes,
        reset_kwargs=task.reset,
        text=served.text,
        max_steps=task.max_steps,
    )
