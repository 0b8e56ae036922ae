"""The process of a worker: serves the application on the connections that the dispatcher hands over."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.execution.fork_server import kill_with_parent
from openenv.core.env_server.observability.log_context import LogFormat, configure_logging
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.worker_share import WorkerShare, WrongWorker
from openenv.hosting.serving.graceful_server import GracefulServer
from openenv.hosting.serving.program_exit import children_end_at_exit, exit_on_sigterm
from openenv.hosting.workers import ipc
from openenv.hosting.workers.peers import PeerWorkers, private_socket

if TYPE_CHECKING:
    from fastapi import FastAPI


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """What a worker needs to start."""

    source: "Callable[[], FastAPI]"
    """Makes the application."""
    share: WorkerShare
    """The worker's number, and its share of the server's limits."""
    supervisor_pid: int
    folder: Path
    """Of the workers' private sockets, which no other user may enter."""
    log_level: str
    """uvicorn's."""
    log_settings: tuple[int, LogFormat]
    """Level and format of the server's log."""


def worker_main(spec: WorkerSpec, connection: socket.socket) -> None:
    """Serve until SIGTERM, or until the supervisor's process ends. connection: the worker's end of its channel."""
    _end_with_parent(spec.supervisor_pid)
    exit_on_sigterm()
    signal.signal(signal.SIGINT, lambda *_: None)  # as `handle_exit`, before the server listens and after
    configure_logging(*spec.log_settings)
    with children_end_at_exit():
        _WorkerServer(spec, connection).run()


def _end_with_parent(supervisor_pid: int) -> None:
    """End this process when its parent ends, even while its event loop is blocked."""
    kill_with_parent()
    if os.getppid() != supervisor_pid:
        sys.exit(1)  # the parent ended before prctl


class _WorkerServer(GracefulServer):
    """Serves the connections that it is handed, and the requests of other workers on a private socket."""

    def __init__(self, spec: WorkerSpec, connection: socket.socket) -> None:
        app = spec.source()
        super().__init__(app, log_level=spec.log_level, uds=str(private_socket(spec.folder, spec.share.number)))
        peers = PeerWorkers(spec.folder, spec.share.number, spec.share.num_workers)
        app.add_exception_handler(WrongWorker, peers.forward)
        app.state.peers = peers
        self._share = spec.share
        self._own_sessions: SessionManager = app.state.sessions
        self._connection = connection
        self._channel: ipc.Channel | None = None
        self._handovers: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn in its event loop."""
        self._own_sessions.take_share(self._share, self._report_load)
        await super().startup(sockets)
        self._channel = ipc.Channel(self._connection, self._on_message, lambda: None)
        self._report_load()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn. Ctrl-C signals the whole group; the supervisor decides and sends SIGTERM."""
        if sig != signal.SIGINT:
            super().handle_exit(sig, frame)

    def _report_load(self) -> None:
        if self._channel is not None:
            capacity = self._own_sessions.capacity
            self._channel.send(ipc.LOAD, capacity.num_acquired, capacity.num_queued, capacity.num_requested)

    def _on_message(self, message: ipc.ChannelMessage) -> None:
        if message.kind == ipc.CONNECTION:
            self._serve_connection(message.connection)
            return
        capacity, (number,) = self._own_sessions.capacity, message.numbers
        if message.kind == ipc.ADD_SLOTS:
            capacity.add_slots(number)
        elif self._channel is not None:
            self._channel.send(ipc.RETURN_SLOTS, capacity.return_slots(number))

    def _serve_connection(self, connection: socket.socket | None) -> None:
        """Serve a connection whose first request is still unread."""
        if connection is None:
            ipc.log.error("a connection was lost: this process has no file descriptor left for it")
            return
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.connect_accepted_socket(self.make_connection, connection))
        self._handovers.add(task)
        task.add_done_callback(self._handovers.discard)
