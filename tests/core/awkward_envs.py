"""Environments whose authors did what one would rather they had not."""

import asyncio
import subprocess
import sys
import time
from typing import Any, ClassVar

import numpy.random

from openenv.core import Action, Environment, Observation, State


class Do(Action):
    """What to do."""

    what: str = "count"


class Seen(Observation):
    """How far it has come, and what else a test asks for."""

    n: int = 0
    seen: Any = None


class Counter(Environment[Do, Seen, State]):
    """Counts its steps; every kind of mischief is a step of its own."""

    def __init__(self) -> None:
        self.n = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Seen:
        self.n = 0
        return Seen()

    def step(self, action: Do, timeout_s: float | None = None, **kwargs: Any) -> Seen:
        if action.what == "slow":
            time.sleep(1.2)
            self.n += 100
        if action.what == "cancelled":
            self.n += 1
            raise asyncio.CancelledError
        if action.what == "interrupt":
            raise KeyboardInterrupt
        self.n += 1
        return Seen(n=self.n, seen=self._look(action.what))

    def _look(self, what: str) -> Any:
        return int(numpy.random.randint(1 << 30)) if what == "draw" else None

    @property
    def state(self) -> State:
        return State(step_count=self.n)

    def save_state(self) -> bytes:
        return str(self.n).encode()

    def load_state(self, snapshot: bytes) -> None:
        time.sleep(1.2)
        self.n = 1000 + int(snapshot)


class OneThread(Counter):
    """Bears one thread only."""

    REQUIRES_SINGLE_THREAD_EXECUTOR = True

    def step(self, action: Do, timeout_s: float | None = None, **kwargs: Any) -> Seen:
        if action.what == "hang":
            time.sleep(2)
        return super().step(action, timeout_s)


class Global(Counter):
    """Its constructor clears what all instances share."""

    SUPPORTS_CONCURRENT_SESSIONS = False
    shared: ClassVar[list[int]] = []

    def __init__(self) -> None:
        super().__init__()
        self.shared.clear()

    def step(self, action: Do, timeout_s: float | None = None, **kwargs: Any) -> Seen:
        self.shared.append(1)
        return Seen(n=len(self.shared))


class Exits(Counter):
    """Ends the program when it is closed, or tries to."""

    execution = "inline"

    def close(self) -> None:
        sys.exit(3)


class Starts(Counter):
    """Starts a program and leaves it running."""

    execution = "process"

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Seen:
        return Seen(seen=subprocess.Popen(["sleep", "120"]).pid)

    def step(self, action: Do, timeout_s: float | None = None, **kwargs: Any) -> Seen:
        while True:
            pass


class Drawing(Counter):
    """Draws from a generator of the whole process."""

    execution = "process"


class Together(Counter):
    """Asynchronous: instances share a semaphore, and each keeps a task between its steps."""

    gate: ClassVar[asyncio.Semaphore] = asyncio.Semaphore(1)
    ticks = 0

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Seen:
        self._task = asyncio.create_task(self._tick())
        return Seen()

    async def step_async(self, action: Do, timeout_s: float | None = None, **kwargs: Any) -> Seen:
        async with self.gate:
            await asyncio.sleep(0.02)
        return Seen(n=self.ticks)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.01)
            self.ticks += 1
