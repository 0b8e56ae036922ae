"""The environments of a run: their servers and their names."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from openenv.auto.environment import ServedEnvironment, named_environment, token_headers
from openenv.core.session_pool import SessionPool
from openenv.envs.catalog import game_keyword
from openenv.rl.config import EnvConfig
from openenv.rl.config.rules import require

_CONNECT_LIMIT_S = 60.0
"""For a connection to a server: beside a model and many programs both sides are slow. One that is gone refuses it at
once."""


async def serve_environment(config: EnvConfig, stack: contextlib.AsyncExitStack) -> ServedEnvironment:
    """The environment on its servers, which the stack stops if the run has started them.

    Raises ConfigError for replicas of a server at a URL or in an image.
    """
    named = replace(named_environment(config.name, text=config.text or None), success_return=config.success_return)
    if config.server_url:
        return await asyncio.to_thread(named.served_at, config.server_url, headers=token_headers())
    rule = f"only a server that the run starts as a process has replicas, which {config.name} is not. Leave it out."
    require(config.replicas == 1 or named.is_process, "env.replicas", config.replicas, rule)
    serving = named.served_by(config.replicas) if named.is_process else named.served()
    starting = asyncio.ensure_future(asyncio.to_thread(serving.__enter__))
    stack.push_async_callback(_stop, starting, serving)
    return await asyncio.shield(starting)


def session_pool(served: ServedEnvironment, num_sessions: int, *, may_share: bool = True) -> SessionPool[Any, Any]:
    """Sessions of an environment's servers, as `SessionPool` has them."""
    client = partial(served.client, connect_timeout_s=_CONNECT_LIMIT_S)
    return SessionPool(client, served.base_urls, num_sessions, may_share=may_share)


async def _stop(starting: asyncio.Future[ServedEnvironment], serving: Any) -> None:
    """Stop the server of the environment, also one that was starting when the setup was cancelled."""
    await asyncio.wait([starting])
    if starting.exception() is None:
        await asyncio.to_thread(serving.__exit__, None, None, None)


def _game(config: EnvConfig) -> str:
    """The game that an environment's resets choose by name, otherwise the environment's own name."""
    keyword = game_keyword(config.name)
    return config.name if keyword is None else str(config.reset.get(keyword, config.name))


def labels(configs: Sequence[EnvConfig]) -> list[str]:
    """A different name for each environment: its game where it has several, otherwise its own name."""
    names = [_game(config) for config in configs]
    counts, used = Counter(names), Counter[str]()
    for number, name in enumerate(names):
        used[name] += 1
        if counts[name] > 1:
            names[number] = f"{name} {used[name]}"
    return names
