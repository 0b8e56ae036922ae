"""Is everything given back when sessions have closed?"""

import asyncio
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

import httpx

from openenv.evaluation.quality.episodes import play
from openenv.evaluation.quality.findings import Finding, failed, passed, skipped, warned
from openenv.evaluation.quality.subject import Subject

_SESSIONS = 16
_STEPS = 3
_SETTLES_IN_S = 3.0
_PAUSE_S = 0.1
_LOOKS = 3
_GAUGE = re.compile(r"^openenv_sessions (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Held:
    """What a server holds; None where it cannot be known."""

    sessions: int | None
    files: int | None
    children: int | None

    def least(self, other: "_Held") -> "_Held":
        """The smaller of each number."""
        return _Held(
            _smaller(self.sessions, other.sessions),
            _smaller(self.files, other.files),
            _smaller(self.children, other.children),
        )

    def beyond(self, before: "_Held") -> dict[str, int]:
        """What is held now and was not before, by its name."""
        pairs = {
            "sessions": (self.sessions, before.sessions),
            "file descriptors": (self.files, before.files),
            "child processes": (self.children, before.children),
        }
        grown = {name: now - then for name, (now, then) in pairs.items() if now is not None and then is not None}
        return {name: number for name, number in grown.items() if number > 0}


def _smaller(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)


async def leaks(subject: Subject) -> Finding:
    """Sixteen sessions are opened, played and closed: no session, file or child process is left."""
    await _open_and_close(subject, 4)  # whatever a server opens once is open then
    before = await _settled(subject, None)
    if before.sessions is None and before.files is None:
        return skipped("the server tells its sessions neither at /ready nor at /metrics, and its process is not ours")
    await _open_and_close(subject, _SESSIONS)
    after = await _settled(subject, before)
    left = after.beyond(before)
    if not left:
        known = ["sessions", *(["file descriptors", "child processes"] if after.files is not None else [])]
        return passed(f"{_SESSIONS} sessions opened and closed: no {', '.join(known)} left")
    seen = f"{_SESSIONS} sessions opened and closed: {', '.join(f'{n} {name}' for name, n in left.items())} left"
    remedy = "release in close() what reset() and step() opened"
    return failed(seen, remedy) if max(left.values()) >= _SESSIONS // 2 or "sessions" in left else warned(seen, remedy)


async def _open_and_close(subject: Subject, count: int) -> None:
    player = subject.random_player("leaks")
    for number in range(count):
        async with subject.dialogue() as dialogue:
            await play(dialogue, subject.seed + number, player, _STEPS)


async def _settled(subject: Subject, before: _Held | None) -> _Held:
    """What the server holds when it has had time to close what was closed: no more than before, or after 3 s.

    A connection that is just being opened or closed counts for a moment: the least of several looks is what is held.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _SETTLES_IN_S
    least = await _held(subject)
    for look in itertools.count(1):
        is_back = (not least.sessions and look >= _LOOKS) if before is None else not least.beyond(before)
        if is_back or loop.time() > give_up:
            break
        await asyncio.sleep(_PAUSE_S)
        least = least.least(await _held(subject))
    return least


async def _held(subject: Subject) -> _Held:
    sessions = await _sessions(subject)
    if subject.server is None:
        return _Held(sessions, None, None)
    pid = subject.server.pid
    return _Held(sessions, len(os.listdir(f"/proc/{pid}/fd")), _num_descendants(pid))


async def _sessions(subject: Subject) -> int | None:
    address = subject.address
    async with httpx.AsyncClient(
        base_url=address.base_url, headers=dict(address.headers), timeout=address.answer_s, trust_env=False
    ) as http:
        ready, metrics = await http.get("/ready"), await http.get("/metrics")
    if ready.status_code == 200 and ready.headers.get("content-type", "").startswith("application/json"):
        told = ready.json().get("sessions")
        if isinstance(told, int):
            return told
    gauge = _GAUGE.search(metrics.text) if metrics.status_code == 200 else None
    return int(float(gauge[1])) if gauge else None


def _num_descendants(pid: int) -> int:
    """Child processes, and theirs; a child belongs to the thread that started it."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return len(children) + sum(map(_num_descendants, children))
