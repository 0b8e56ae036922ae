"""Real sessions of one server: typed clients of one process, whose thinking takes random times."""

import asyncio
import contextlib
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import cpu_s, resident_mb
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.hosting.local_process import LocalServer

SERVER = ("openenv.envs.openspiel_env.server.app", ["--game", "catch"])


@dataclass(frozen=True, kw_only=True)
class Load:
    """Sessions that are played for a time."""

    sessions: int
    think_s: float
    """Mean of the exponential time between a response and the next request of a session."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Played:
    """What happened in that time. Resets, which every tenth request is, count as requests."""

    requests: int
    """Those that were sent in that time."""
    seconds: float
    latencies_s: list[float]
    client_s: float
    """Processor seconds of the process with the clients."""
    server_s: float
    client_share: float
    """Of the time in which it could run, the share in which it ran: the rest is other programs'."""
    server_share: float
    server_mib: float
    """The server's memory with all sessions open."""

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


async def play(server: LocalServer, load: Load, *, seed: int = 0) -> Played:
    """Open all sessions, and let them play until the time is over."""
    latencies: list[float] = []
    async with contextlib.AsyncExitStack() as stack:
        clients = [OpenSpielEnv(base_url=server.base_url) for _ in range(load.sessions)]
        for first in range(0, load.sessions, 100):  # a listening socket has a queue of limited length
            await asyncio.gather(*(stack.enter_async_context(one) for one in clients[first : first + 100]))
        await asyncio.gather(*(one.reset(seed=number) for number, one in enumerate(clients)))
        memory = resident_mb(server.pid)
        began, used, served = time.perf_counter(), time.process_time(), cpu_s(server.pid)
        waited = [_ran_and_waited(pid) for pid in (os.getpid(), server.pid)]
        end = began + load.seconds
        rngs = [random.Random(seed * load.sessions + number) for number in range(load.sessions)]
        await asyncio.gather(
            *(_session(one, rng, load.think_s, end, latencies) for one, rng in zip(clients, rngs, strict=True))
        )
        return Played(
            requests=len(latencies),
            seconds=load.seconds,
            latencies_s=latencies,
            client_s=time.process_time() - used,
            server_s=cpu_s(server.pid) - served,
            client_share=_share(os.getpid(), waited[0]),
            server_share=_share(server.pid, waited[1]),
            server_mib=memory,
        )


def _ran_and_waited(pid: int) -> tuple[int, int]:
    """How long the first thread of a process has run, and has waited for a processor, in nanoseconds."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(ran), int(waited)


def _share(pid: int, before: tuple[int, int]) -> float:
    ran, waited = (now - then for now, then in zip(_ran_and_waited(pid), before, strict=True))
    return ran / max(1, ran + waited)


async def _session(env: OpenSpielEnv, rng: random.Random, think_s: float, end: float, latencies: list[float]) -> None:
    is_done = True
    while True:
        if think_s:
            await asyncio.sleep(min(rng.expovariate(1 / think_s), max(0.0, end - time.perf_counter())))
        began = time.perf_counter()
        if began >= end:
            return
        if is_done:
            result = await env.reset(seed=rng.randrange(10**6))
        else:
            result = await env.step(OpenSpielAction(action_id=rng.randrange(3)))
        is_done = result.done
        latencies.append(time.perf_counter() - began)
