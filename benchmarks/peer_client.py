"""Measures one client against a running server, with whichever `openenv` this Python has: ours or the published one.

python peer_client.py URL echo|catch sync|async|uvloop SESSIONS SECONDS    prints one JSON line

`uvloop` is `async` in that event loop, where it is installed: `openenv` brings it, the published package does not.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from openenv.core.generic_client import GenericEnvClient

ACTIONS: dict[str, dict[str, Any]] = {"echo": {"message": "hello"}, "catch": {"action_id": 1}}


def play_synchronously(url: str, action: dict[str, Any], seconds: float) -> list[float]:
    """Seconds of each step; an episode that ends is followed by the next."""
    latencies = []
    with GenericEnvClient(base_url=url).sync() as env:
        env.reset()
        ended = time.perf_counter() + seconds
        while (began := time.perf_counter()) < ended:
            done = env.step(action).done
            latencies.append(time.perf_counter() - began)
            if done:
                env.reset()
    return latencies


async def play(url: str, action: dict[str, Any], seconds: float) -> list[float]:
    """The same, asynchronously."""
    latencies = []
    async with GenericEnvClient(base_url=url) as env:
        await env.reset()
        ended = time.perf_counter() + seconds
        while (began := time.perf_counter()) < ended:
            done = (await env.step(action)).done
            latencies.append(time.perf_counter() - began)
            if done:
                await env.reset()
    return latencies


async def play_together(url: str, action: dict[str, Any], seconds: float, sessions: int) -> list[float]:
    """Several sessions in one process."""
    played = await asyncio.gather(*(play(url, action, seconds) for _ in range(sessions)))
    return [latency for latencies in played for latency in latencies]


def main() -> None:
    """Play, then print steps per second, latencies, and processor time of this process for each step."""
    url, game, mode, sessions, seconds = sys.argv[1:]
    action = ACTIONS[game]
    cpu = -_cpu_s()
    if mode == "sync":
        latencies = play_synchronously(url, action, float(seconds))
    else:
        with asyncio.Runner(loop_factory=_loop_factory(mode)) as runner:
            latencies = runner.run(play_together(url, action, float(seconds), int(sessions)))
    cpu += _cpu_s()
    latencies.sort()
    figures = {
        "steps_per_s": len(latencies) / float(seconds),
        "p50_us": 1e6 * latencies[len(latencies) // 2],
        "p99_us": 1e6 * latencies[int(len(latencies) * 0.99)],
        "client_cpu_us": 1e6 * cpu / len(latencies),
    }
    print(json.dumps(figures))


def _loop_factory(mode: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """None: the standard library's event loop."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop if mode == "uvloop" else None


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
