"""Measures one client against a running server, with whichever `openenv` this Python has: ours or the published one.

python peer_client.py ours|published URL echo|catch|tic_tac_toe|pixels MODE SESSIONS SECONDS    prints one JSON line

MODE: `sync` and `async` step; `uvloop` is `async` in that event loop where it is installed (`openenv` brings it, the
published package does not); `open` and `open_async` open sessions one after another: connect, reset, close.
"""

import asyncio
import importlib.util
import json
import resource
import sys
import time
from typing import Any

from openenv.core.generic_client import GenericEnvClient

SIDE = sys.argv[1]
ACTIONS: dict[str, dict[str, Any]] = {
    "echo": {"message": "hello"},
    "catch": {"action_id": 1},
    "tic_tac_toe": {"action_id": 0},
    "pixels": {"action_id": 0},
}


def client(url: str, game: str) -> tuple[Any, Any]:
    """A client and its action: the generic one, but ours for pixels, whose arrays have a declared type."""
    if game == "pixels" and SIDE == "ours":
        from benchmarks.pixels import PixelAction, PixelEnv

        return PixelEnv(base_url=url), PixelAction(action_id=0)
    return GenericEnvClient(base_url=url), ACTIONS[game]


def play_synchronously(url: str, game: str, seconds: float) -> list[float]:
    """Seconds of each step; an episode that ends is followed by the next."""
    latencies = []
    env, action = client(url, game)
    with env.sync() as env:
        env.reset()
        ended = time.perf_counter() + seconds
        while (began := time.perf_counter()) < ended:
            done = env.step(action).done
            latencies.append(time.perf_counter() - began)
            if done:
                env.reset()
    return latencies


async def play(url: str, game: str, seconds: float) -> list[float]:
    """The same, asynchronously."""
    latencies = []
    env, action = client(url, game)
    async with env:
        await env.reset()
        ended = time.perf_counter() + seconds
        while (began := time.perf_counter()) < ended:
            done = (await env.step(action)).done
            latencies.append(time.perf_counter() - began)
            if done:
                await env.reset()
    return latencies


async def play_together(url: str, game: str, seconds: float, sessions: int) -> list[float]:
    """Several sessions in one process."""
    played = await asyncio.gather(*(play(url, game, seconds) for _ in range(sessions)))
    return [latency for latencies in played for latency in latencies]


def open_and_close(url: str, game: str, seconds: float) -> list[float]:
    """Seconds of each session: connected, reset, closed."""
    latencies = []
    ended = time.perf_counter() + seconds
    while (began := time.perf_counter()) < ended:
        env, _ = client(url, game)
        with env.sync() as env:
            env.reset()
        latencies.append(time.perf_counter() - began)
    return latencies


async def open_and_close_async(url: str, game: str, seconds: float) -> list[float]:
    """The same, asynchronously."""
    latencies = []
    ended = time.perf_counter() + seconds
    while (began := time.perf_counter()) < ended:
        env, _ = client(url, game)
        async with env:
            await env.reset()
        latencies.append(time.perf_counter() - began)
    return latencies


def main() -> None:
    """Play, then print the rate, latencies, and processor time of this process for each of them."""
    url, game, mode, sessions, seconds = sys.argv[2:]
    client(url, game)  # imports are not what is measured
    cpu = -_cpu_s()
    if mode == "sync":
        latencies = play_synchronously(url, game, float(seconds))
    elif mode == "open":
        latencies = open_and_close(url, game, float(seconds))
    elif mode == "open_async":
        latencies = asyncio.run(open_and_close_async(url, game, float(seconds)))
    else:
        has_uvloop = mode == "uvloop" and importlib.util.find_spec("uvloop") is not None
        loop_factory = importlib.import_module("uvloop").new_event_loop if has_uvloop else None
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            latencies = runner.run(play_together(url, game, float(seconds), int(sessions)))
    cpu += _cpu_s()
    latencies.sort()
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
