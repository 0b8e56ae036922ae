"""What runs in a worker: the application, for the connections that the front door hands over."""

import asyncio
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.commons import SessionElsewhere
from openenv.core.env_server.draining_server import DrainingServer
from openenv.core.env_server.episode_log import LogFormat, configure_logging
from openenv.core.env_server.processes.channel import Channel, Question, Said
from openenv.core.env_server.processes.forwarding import Forwarding, private_socket
from openenv.core.env_server.processes.shared_commons import SharedCommons
from openenv.core.env_server.sessions import Sessions
from openenv.core.local_socket import LOCAL

if TYPE_CHECKING:
    from fastapi import FastAPI

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What a worker is told at its start."""

    source: "Callable[[], FastAPI]"
    """Makes the application."""
    number: int
    """The worker's own, from 0."""
    num_workers: int
    front_door_pid: int
    folder: Path
    """Of the workers' private sockets."""
    secret: str
    """Known to the workers of this server alone."""
    log_level: str
    """uvicorn's."""
    logging_choice: tuple[int, LogFormat]
    """Level and format of the server's log."""


def worker_main(assignment: Assignment, connection: socket.socket) -> None:
    """Serve until told to stop, or until the front door's process is gone. connection: the channel to that."""
    _end_with(assignment.front_door_pid)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: None)  # as `handle_exit`, before the server listens and after
    configure_logging(*assignment.logging_choice)
    _WorkerServer(assignment, connection).run()


def _end_with(front_door_pid: int) -> None:
    """However that process ends, this one does too, also when its event loop is held up."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != front_door_pid:
        sys.exit(1)  # it has ended before we asked


class _WorkerServer(DrainingServer):
    """Serves connections that it is given, and other workers' requests on a private socket."""

    def __init__(self, assignment: Assignment, connection: socket.socket) -> None:
        app = assignment.source()
        super().__init__(
            app, log_level=assignment.log_level, uds=str(private_socket(assignment.folder, assignment.number))
        )
        app.add_exception_handler(SessionElsewhere, Forwarding(assignment.folder, assignment.secret))
        self._own_sessions: Sessions = app.state.sessions
        self._assignment = assignment
        self._connection = connection
        self._taking_over: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: Any = None) -> None:
        """Called by uvicorn in its event loop."""
        told = self._assignment
        channel = Channel(self._connection, self)
        self._own_sessions.commons = SharedCommons(channel, told.number, told.num_workers, told.secret)
        await super().startup(sockets)
        channel.note("ready")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn: Ctrl-C reaches the whole group, and the front door tells us to stop."""
        if sig != signal.SIGINT:
            super().handle_exit(sig, frame)

    def given(self, connection: socket.socket) -> None:
        """Serve a connection whose first request is still to be read."""
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        beside = LOCAL if connection.family is socket.AF_UNIX else None
        task = loop.create_task(loop.connect_accepted_socket(partial(self.connection, beside), connection))
        self._taking_over.add(task)
        task.add_done_callback(self._taking_over.discard)

    async def answer(self, question: Question) -> Said:
        """The front door asks for this worker's figures, and for nothing else."""
        return Said(payload=self._own_sessions.telemetry.text())

    def noted(self, verb: str) -> None:
        """The front door notes nothing."""

    def left(self) -> None:
        """The front door's process has ended, and this one is about to."""
