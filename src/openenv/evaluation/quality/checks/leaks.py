"""Are all resources released when sessions have closed?"""

import asyncio
import itertools
import os
import re
from dataclasses import dataclass

from openenv.evaluation.quality.probe.recordings import play
from openenv.evaluation.quality.target import CheckResult, Target, failed, passed, skipped, warned
from openenv.hosting.process_tree import descendants_of

_SESSIONS = 16
_STEPS = 3
_SETTLE_TIMEOUT_S = 3.0
_POLL_INTERVAL_S = 0.1
_MIN_SAMPLES = 10
_GAUGE = re.compile(r"^openenv_sessions (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Resources:
    """The resources of a server; None where they are unknown."""

    sessions: int | None
    files: int | None
    children: int | None

    def minimum(self, other: "_Resources") -> "_Resources":
        """The smaller of each number."""
        return _Resources(
            _smaller(self.sessions, other.sessions),
            _smaller(self.files, other.files),
            _smaller(self.children, other.children),
        )

    def beyond(self, before: "_Resources") -> dict[str, int]:
        """The resources by which this exceeds `before`, by name."""
        pairs = {
            "sessions": (self.sessions, before.sessions),
            "file descriptors": (self.files, before.files),
            "child processes": (self.children, before.children),
        }
        grown = {name: now - then for name, (now, then) in pairs.items() if now is not None and then is not None}
        return {name: number for name, number in grown.items() if number > 0}


def _smaller(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)


async def leaks(target: Target) -> CheckResult:
    """After sixteen sessions were opened, played and closed, no session, file or child process is left."""
    await _open_and_close(target, 4)  # resources that a server opens only once are open now
    before = await _settled(target, None)
    if before.sessions is None and before.files is None:
        return skipped("the server reports its sessions neither at /ready nor at /metrics, and its process is unknown")
    await _open_and_close(target, _SESSIONS)
    after = await _settled(target, before)
    left = after.beyond(before)
    if not left:
        known = ["sessions", *(["file descriptors", "child processes"] if after.files is not None else [])]
        return passed(f"{_SESSIONS} sessions opened and closed: no {', '.join(known)} left")
    seen = f"{_SESSIONS} sessions opened and closed: {', '.join(f'{n} {name}' for name, n in left.items())} left"
    remedy = "release in close() what reset() and step() opened"
    return failed(seen, remedy) if max(left.values()) >= _SESSIONS // 2 or "sessions" in left else warned(seen, remedy)


async def _open_and_close(target: Target, count: int) -> None:
    policy = target.random_policy("leaks")
    for number in range(count):
        async with target.client() as client:
            await play(client, target.seed + number, policy, _STEPS)


async def _settled(target: Target, before: _Resources | None) -> _Resources:
    """The server's resources once it holds no more than before, or after three seconds.

    A connection that is being opened or closed counts for a moment, so the minimum of several samples is returned.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SETTLE_TIMEOUT_S
    least = await _held(target)
    for sample in itertools.count(1):
        is_settled = (not least.sessions and sample >= _MIN_SAMPLES) if before is None else not least.beyond(before)
        if is_settled or loop.time() > deadline:
            break
        await asyncio.sleep(_POLL_INTERVAL_S)
        least = least.minimum(await _held(target))
    return least


async def _held(target: Target) -> _Resources:
    sessions = await _sessions(target)
    if target.server is None:
        return _Resources(sessions, None, None)
    pid = target.server.pid
    return _Resources(sessions, len(os.listdir(f"/proc/{pid}/fd")), len(descendants_of(pid)))


async def _sessions(target: Target) -> int | None:
    async with target.http() as http:
        ready, metrics = await http.get("/ready"), await http.get("/metrics")
    if ready.status_code == 200 and ready.headers.get("content-type", "").startswith("application/json"):
        count = ready.json().get("sessions")
        if isinstance(count, int):
            return count
    gauge = _GAUGE.search(metrics.text) if metrics.status_code == 200 else None
    return int(float(gauge[1])) if gauge else None
