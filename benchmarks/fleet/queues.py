"""The queues of one server and its clients, simulated event by event."""

import heapq
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds of a request, as they were measured; those of client and server are processor seconds."""

    client_s: float
    server_s: float
    way_s: float = 0.0
    """What a request takes beside, there and back: the kernel, and waking up."""
    spread: Sequence[float] = (1.0,)
    """Factors of single requests, with a mean of 1: how much the times of requests differ."""


class _Stage(Enum):
    SEND = auto()
    SERVE = auto()
    RECEIVE = auto()


@dataclass
class _Station:
    """One processor, which works on what waits in the order of arrival."""

    waiting: deque[tuple[int, _Stage]] = field(default_factory=deque)
    is_busy: bool = False
    busy_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """What happened in the simulated time."""

    requests: int
    seconds: float
    latencies_s: list[float]
    busy: float
    """Share of the time in which the server worked."""

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def simulate(
    costs: Costs, sessions: int, think_s: float, seconds: float, *, one_client: bool, seed: int = 0
) -> Simulated:
    """Let sessions think, send, be served and receive.

    Args:
        costs: of a request. The client's are one half before the server's, one half after.
        sessions: of one server.
        think_s: mean of the exponential time between a response and the next request of a session.
        seconds: of simulated time.
        one_client: whether one processor has all clients; otherwise each has one of its own.
    """
    rng = random.Random(seed)
    client, server = _Station(), _Station()
    began, latencies = [0.0] * sessions, list[float]()
    events: list[tuple[float, int, int, _Stage, bool]] = []
    number = 0

    def at(time_s: float, session: int, stage: _Stage, ends: bool) -> None:
        nonlocal number
        number += 1  # of equal times the first event is the first
        heapq.heappush(events, (time_s, number, session, stage, ends))

    def begin(station: _Station, now: float) -> None:
        if station.is_busy or not station.waiting:
            return
        session, stage = station.waiting.popleft()
        if stage is _Stage.SEND:
            began[session] = now
        took = (costs.server_s if stage is _Stage.SERVE else costs.client_s / 2) * rng.choice(costs.spread)
        station.is_busy = one_client or station is server
        station.busy_s += took
        at(now + took, session, stage, True)

    for session in range(sessions):
        at(rng.expovariate(1 / think_s) if think_s else 0.0, session, _Stage.SEND, False)
    while events:
        now, _, session, stage, ends = heapq.heappop(events)
        if now > seconds:
            break
        station = server if stage is _Stage.SERVE else client
        if not ends:
            station.waiting.append((session, stage))
            begin(station, now)
            continue
        station.is_busy = False
        if stage is _Stage.SEND:
            at(now + costs.way_s / 2, session, _Stage.SERVE, False)
        elif stage is _Stage.SERVE:
            at(now + costs.way_s / 2, session, _Stage.RECEIVE, False)
        else:
            latencies.append(now - began[session])
            at(now + (rng.expovariate(1 / think_s) if think_s else 0.0), session, _Stage.SEND, False)
        begin(station, now)
    return Simulated(
        requests=len(latencies), seconds=seconds, latencies_s=latencies, busy=min(1.0, server.busy_s / seconds)
    )
