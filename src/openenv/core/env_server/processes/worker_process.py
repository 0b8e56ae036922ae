"""A worker as the front door's process knows it: its process, its channel, and the sessions that it has."""

import asyncio
import collections
import multiprocessing
import os
import pickle
import signal
import socket
import time
from collections.abc import Callable
from typing import Protocol

from openenv.core.env_server.processes.channel import Channel, Question, Said, pair
from openenv.core.env_server.processes.serving_worker import Assignment, worker_main

_EXPECTED_S = 5.0
"""So long after a connection that opens a session its worker may take to ask for a place."""


class Desk(Protocol):
    """Where workers ask for what they share."""

    async def answer(self, worker: "WorkerProcess", question: Question) -> Said:
        """Answer a question of a worker. Raises RequestRefused."""
        ...

    def free(self, worker: "WorkerProcess") -> None:
        """Take a place back from a worker."""
        ...


class WorkerProcess:
    """One process of one worker; when it ends, another takes its number."""

    def __init__(self, assignment: Assignment, desk: Desk, on_ready: "Callable[[WorkerProcess], None]") -> None:
        """Start it. on_ready: is told when it takes connections. Raises ValueError when it cannot be told what to
        serve."""
        self.number = assignment.number
        self.is_ready = self.has_served = False
        self._desk = desk
        self._on_ready = on_ready
        self.num_taken = 0
        """Places that it has."""
        self.num_asked = 0
        """Places that it waits for."""
        self._expected: collections.deque[float] = collections.deque()
        ours, theirs = pair()
        self._process = multiprocessing.get_context("spawn").Process(
            target=worker_main, args=(assignment, theirs), name=f"worker {self.number}"
        )
        with theirs:
            try:
                self._process.start()
            except (AttributeError, TypeError, pickle.PicklingError) as error:
                ours.close()
                raise ValueError(
                    f"workers={assignment.num_workers}: the application cannot be made in another process ({error}). "
                    "Serve 'MODULE:APP', or a function of a module that returns it"
                ) from error
        self.channel = Channel(ours, self)

    @property
    def pid(self) -> int | None:
        """Its process id."""
        return self._process.pid

    @property
    def load(self) -> int:
        """Sessions that it has, or is about to have."""
        now = time.monotonic()
        while self._expected and self._expected[0] < now:
            self._expected.popleft()
        return self.num_taken + self.num_asked + len(self._expected)

    def hand_over(self, connection: socket.socket, *, opens_session: bool) -> None:
        """Let it have a connection."""
        if opens_session:
            self._expected.append(time.monotonic() + _EXPECTED_S)
        self.channel.give(connection)

    def asks(self) -> None:
        """Count a place that it asks for, as one of its connections was expected to."""
        self.num_asked += 1
        if self._expected:
            self._expected.popleft()

    async def ended(self) -> str:
        """How it ended, once it has: `exit code 3` or `signal SIGKILL`."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self._process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        self._process.join()
        self.is_ready = False
        self.channel.close()
        code = self._process.exitcode or 0
        return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"

    def send_signal(self, number: signal.Signals) -> None:
        """Send it, unless the process has ended."""
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, number)

    async def answer(self, question: Question) -> Said:
        """What the worker asks."""
        return await self._desk.answer(self, question)

    def noted(self, verb: str) -> None:
        """What the worker says: `ready` or `free`."""
        if verb == "ready":
            self.is_ready = self.has_served = True
            self._on_ready(self)
        else:
            self._desk.free(self)

    def given(self, connection: socket.socket) -> None:
        """A worker hands over no connections."""
        connection.close()

    def left(self) -> None:
        """It is ending: it takes nothing more."""
        self.is_ready = False
