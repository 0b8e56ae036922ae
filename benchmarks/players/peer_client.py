"""Measures one client against a running server, with the `openenv` of this Python: ours or the published one.

python peer_client.py ours|published URL echo|catch|pixels typed|dictionaries MODE SESSIONS SECONDS

It prints one JSON line. MODE is one of
- `sync` and `async`: step one session, or several sessions of one process.
- `pool`: step all sessions of a `SessionPool` together (ours alone).
- `open` and `open_async`: open sessions one after another; each connects, resets and closes.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from openenv.core.generic_client import GenericEnvClient

ACTIONS: dict[str, dict[str, Any]] = {
    "echo": {"message": "hello"},
    "catch": {"action_id": 1},
    "pixels": {"action_id": 0},
}


class Player(NamedTuple):
    """A client class, the server's address, and a factory of actions: each step makes its own."""

    client_class: Callable[..., Any]
    url: str
    make_action: Callable[[], Any]

    def client(self) -> Any:
        """Return a new client, not yet connected."""
        return self.client_class(base_url=self.url)


def make_player(side: str, url: str, game: str, client: str) -> Player:
    """Return the player of a side. client: typed or dictionaries."""
    action = ACTIONS[game]
    if client == "dictionaries":
        return Player(GenericEnvClient, url, partial(dict, action))
    client_class, action_class = (_our_types if side == "ours" else _published_types)(game)
    return Player(client_class, url, partial(action_class, **action))


def _our_types(game: str) -> tuple[type, type]:
    if game == "echo":
        from openenv.envs.echo_env import EchoAction, EchoEnv

        return EchoEnv, EchoAction
    if game == "catch":
        from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv

        return OpenSpielEnv, OpenSpielAction
    from benchmarks.environments import PixelAction, PixelEnv

    return PixelEnv, PixelAction


def _published_types(game: str) -> tuple[type, type]:
    from tests.interop import published_peer as published

    return {
        "echo": (published.EchoEnv, published.EchoAction),
        "catch": (published.CatchEnv, published.OpenSpielAction),
        "pixels": (published.PixelEnv, published.PixelAction),
    }[game]


def play_synchronously(player: Player, seconds: float) -> list[float]:
    """Return the seconds of each step. A reset, which is not counted, follows the end of an episode."""
    latencies = []
    with player.client().sync() as env:
        env.reset()
        ended = time.perf_counter() + seconds
        while (began := time.perf_counter()) < ended:
            done = env.step(player.make_action()).done
            latencies.append(time.perf_counter() - began)
            if done:
                env.reset()
    return latencies


async def play(player: Player, seconds: float) -> list[float]:
    """Return the same for an asynchronous client."""
    latencies = []
    async with player.client() as env:
        await env.reset()
        ended = time.perf_counter() + seconds
        while (began := time.perf_counter()) < ended:
            done = (await env.step(player.make_action())).done
            latencies.append(time.perf_counter() - began)
            if done:
                await env.reset()
    return latencies


async def play_together(player: Player, seconds: float, sessions: int) -> list[float]:
    """Return the seconds of each step of several sessions in one event loop."""
    played = await asyncio.gather(*(play(player, seconds) for _ in range(sessions)))
    return [latency for latencies in played for latency in latencies]


async def play_pool(player: Player, seconds: float, sessions: int) -> list[float]:
    """Return the seconds of each session's step; all sessions of a pool step together."""
    from openenv.core.session_pool import SessionPool

    latencies: list[float] = []
    async with SessionPool(player.client_class, player.url, sessions) as pool:
        await pool.reset({index: {} for index in range(sessions)})
        ended = time.perf_counter() + seconds
        while (began := time.perf_counter()) < ended:
            results = await pool.step({index: player.make_action() for index in range(sessions)})
            latencies += [time.perf_counter() - began] * sessions
            if over := [index for index, result in results.items() if result.done]:
                await pool.reset({index: {} for index in over})
    return latencies


def open_and_close(player: Player, seconds: float) -> list[float]:
    """Return the seconds of each session: connected, reset, closed."""
    latencies = []
    ended = time.perf_counter() + seconds
    while (began := time.perf_counter()) < ended:
        with player.client().sync() as env:
            env.reset()
        latencies.append(time.perf_counter() - began)
    return latencies


async def open_and_close_async(player: Player, seconds: float) -> list[float]:
    """Return the same for an asynchronous client."""
    latencies = []
    ended = time.perf_counter() + seconds
    while (began := time.perf_counter()) < ended:
        async with player.client() as env:
            await env.reset()
        latencies.append(time.perf_counter() - began)
    return latencies


def measure(player: Player, mode: str, sessions: int, seconds: float) -> list[float]:
    """Return the latencies of one mode, in seconds."""
    match mode:
        case "sync":
            return play_synchronously(player, seconds)
        case "async":
            return asyncio.run(play_together(player, seconds, sessions))
        case "pool":
            return asyncio.run(play_pool(player, seconds, sessions))
        case "open":
            return open_and_close(player, seconds)
        case "open_async":
            return asyncio.run(open_and_close_async(player, seconds))
    raise ValueError(f"mode={mode!r}: expected sync, async, pool, open or open_async")


def main() -> None:
    """Play, then print the rate, the latencies, and this process's processor time for each of them."""
    side, url, game, client, mode, sessions, seconds = sys.argv[1:]
    player = make_player(side, url, game, client)  # its imports are not measured
    cpu = -_cpu_s()
    latencies = sorted(measure(player, mode, int(sessions), float(seconds)))
    cpu += _cpu_s()
    figures = {
        "rate": len(latencies) / float(seconds),
        "p50_us": 1e6 * latencies[len(latencies) // 2],
        "p99_us": 1e6 * latencies[int(len(latencies) * 0.99)],
        "client_cpu_us": 1e6 * cpu / len(latencies),
    }
    print(json.dumps(figures))


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
