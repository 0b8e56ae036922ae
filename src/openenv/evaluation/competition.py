"""Policies against one server: the whole evaluation in one call."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from openenv.core.env_client import EnvClient
from openenv.core.text import TextInterface
from openenv.core.vector import SessionPool
from openenv.envs.openspiel_env.client import OpenSpielEnv
from openenv.evaluation.play import play_episodes
from openenv.evaluation.summary import Summary, summarize
from openenv.policies.random import RandomPolicy

DEFAULT_SESSIONS = 32


async def evaluate(
    server_url: str,
    client_class: Callable[..., EnvClient[Any, Any, Any]],
    policies: Sequence[Any],
    episodes: int,
    seed: int = 0,
    *,
    num_sessions: int = DEFAULT_SESSIONS,
    reset_kwargs: Mapping[str, Any] | None = None,
    text: TextInterface[Any, Any] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
    on_summary: Callable[[Summary], None] | None = None,
    max_steps: int | None = None,
) -> list[Summary]:
    """One summary for each policy, in the order given; every policy plays the same seeds, `seed` and following.

    num_sessions: sessions that play at one time. on_progress: called with a policy's name, its episodes ended and the
    episodes wanted. on_summary: called as each policy finishes, so that what is known survives an interruption. The
    other arguments are those of `play_episodes`. Raises ServerUnreachable when there is no server.
    """
    summaries = []
    async with SessionPool(client_class, server_url, max(1, min(num_sessions, episodes))) as pool:
        for policy in policies:
            played = await play_episodes(
                pool,
                policy,
                episodes,
                seed,
                reset_kwargs=reset_kwargs,
                text=text,
                max_steps=max_steps,
                on_progress=_named(on_progress, policy.name),
            )
            summaries.append(summarize(policy.name, played))
            if on_summary is not None:
                on_summary(summaries[-1])
    return summaries


def _named(on_progress: Callable[[str, int, int], None] | None, name: str) -> Callable[[int, int], None] | None:
    return None if on_progress is None else lambda ended, wanted: on_progress(name, ended, wanted)


def play_random_policy(server_url: str, num_games: int = 100, seed: int = 0) -> dict[str, Any]:
    """Random play of an OpenSpiel server: `wins`, `losses`, `pushes`, `win_rate` (0 to 1) and `total_games`.

    A plain call, also where an event loop already runs, as in a notebook. Raises ServerUnreachable without a server.
    """
    playing = evaluate(server_url, OpenSpielEnv, [RandomPolicy(seed)], num_games, seed)
    with ThreadPoolExecutor(max_workers=1) as thread:
        summary = thread.submit(asyncio.run, playing).result()[0]
    return {
        "wins": summary.num_won,
        "losses": summary.num_lost,
        "pushes": summary.num_push,
        "win_rate": summary.win_rate if summary.num_episodes else 0.0,
        "total_games": summary.num_episodes,
    }
