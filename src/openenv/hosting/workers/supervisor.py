"""The parent process of the workers: starts them, restarts those that die, and ends them together."""

import asyncio
import dataclasses
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.observability.log_context import logging_settings
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.worker_share import WorkerShare
from openenv.core.wire.constants import INHERITED, UNIX
from openenv.hosting.serving.app_loader import AppSource, is_application, load_app, setting_of
from openenv.hosting.serving.listeners import announce_app, open_listeners, warn_if_exposed
from openenv.hosting.serving.program_exit import INTERRUPTED
from openenv.hosting.workers.dispatcher import ConnectionDispatcher
from openenv.hosting.workers.worker_main import WorkerSpec
from openenv.hosting.workers.worker_pool import WorkerHandle, WorkerPool

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_MAX_PAUSE_S = 30.0
"""Before a worker is restarted that ended before it served."""


def serve_with_workers(source: AppSource, host: str, port: int, *, workers: int, log_level: str) -> None:
    """`serve` with two workers or more. Each makes its own application, as this process does once, to know its limits.

    Raises ValueError for what only one process can serve, OSError when it cannot listen, and RuntimeError when a
    worker ends before all have begun to serve. Ctrl-C ends the program with 130, after its workers.
    """
    _check_platform(host, workers)
    if is_application(source):
        raise ValueError(
            f"workers={workers}: every worker makes an application of its own. Give serve() 'MODULE:APP', or a "
            "function of a module that returns the application"
        )
    app = load_app(source)
    sessions: SessionManager | None = setting_of(app, "sessions")
    if sessions is None:
        raise ValueError(
            f"workers={workers}: the application has no session manager, so a client could not return to its session. "
            "Serve what create_app returns, or an application in which HTTPEnvServer registered its routes"
        )
    whole = sessions.share
    if whole.max_sessions < workers:
        log.warning("workers=%d: starting %d, one for each session that the server allows at one time",
                    workers, whole.max_sessions)  # fmt: skip
        workers = whole.max_sessions
    config: ServerConfig = setting_of(app, "config") or ServerConfig()
    warn_if_exposed(host, config)
    shares = [whole.of_worker(number, workers) for number in range(workers)]
    listeners = open_listeners(host, port)
    announced = partial(announce_app, app, host, listeners[0].getsockname()[1])
    supervisor = Supervisor(partial(load_app, source), shares, log_level, config.head_timeout_s, announced)
    try:
        asyncio.run(supervisor.run(listeners))  # noqa: TID251  `serve` refuses to run where a loop runs
    finally:
        for listener in listeners:
            listener.close()
    if supervisor.was_interrupted:
        raise SystemExit(INTERRUPTED)


def _check_platform(host: str, workers: int) -> None:
    """Raises ValueError with the remedy where several workers cannot run."""
    if sys.platform != "linux":
        raise ValueError(f"workers={workers}: several processes behind one port need Linux. Serve with workers=1")
    if host.startswith((UNIX, INHERITED)):
        raise ValueError(f"host={host}: several workers share a port. Serve on an address, or with workers=1")
    if threading.current_thread() is not threading.main_thread():
        raise ValueError(f"workers={workers}: signals reach the main thread only. Serve from there, or with workers=1")


class Supervisor:
    """A server of several workers."""

    def __init__(
        self,
        source: "Callable[[], FastAPI]",
        shares: Sequence[WorkerShare],
        log_level: str,
        head_timeout_s: float,
        on_listening: Callable[[], None],
    ) -> None:
        """
        Args:
            source: makes the application, in each worker.
            shares: one for each worker.
            log_level: uvicorn's.
            head_timeout_s: limit of the wait for a connection's first request.
            on_listening: called when a worker serves.
        """
        self._source = source
        self._shares = shares
        self._log_level = log_level
        self._pool = WorkerPool(len(shares))
        self._head_timeout_s = head_timeout_s
        self._on_listening = on_listening
        self._is_stopping = asyncio.Event()
        self._failure: str | None = None
        self.was_interrupted = False
        """Whether SIGINT has stopped it."""

    async def run(self, listeners: Sequence[socket.socket]) -> None:
        """Serve until SIGTERM or SIGINT; steps that run are finished first, unless a second SIGINT comes.

        Raises RuntimeError when a worker ends before all have begun to serve.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop, number)
        with tempfile.TemporaryDirectory(prefix="openenv-") as folder:
            try:
                for share in self._shares:
                    self._start(share, Path(folder))
                await self._serve(listeners, Path(folder))
            finally:
                self._send_signal(signal.SIGKILL)
        if self._failure is not None:
            raise RuntimeError(self._failure)

    async def _serve(self, listeners: Sequence[socket.socket], folder: Path) -> None:
        async with asyncio.TaskGroup() as group:
            dispatching = group.create_task(ConnectionDispatcher(self._pool, self._head_timeout_s).serve(listeners))
            announcing = group.create_task(self._announce())
            running = [group.create_task(self._keep_running(worker, folder)) for worker in list(self._pool)]
            await asyncio.wait(running)
            announcing.cancel()
            dispatching.cancel()

    async def _announce(self) -> None:
        await self._pool.is_open.wait()
        self._on_listening()

    def _start(self, share: WorkerShare, folder: Path) -> WorkerHandle:
        spec = WorkerSpec(
            source=self._source,
            share=share,
            supervisor_pid=os.getpid(),
            folder=folder,
            log_level=self._log_level,
            log_settings=logging_settings(),
        )
        worker = WorkerHandle(spec, self._pool.on_load)
        self._pool.add(worker)
        log.info("worker %d starts: pid=%d", worker.number, worker.pid)
        return worker

    async def _keep_running(self, worker: WorkerHandle, folder: Path) -> None:
        """Restart a worker whenever it ends, until the server stops."""
        number, pause_s = worker.number, _FIRST_PAUSE_S
        while True:
            exit_status = await worker.ended()
            self._pool.on_ended(worker)
            if self._is_stopping.is_set():
                return
            if worker.has_served:
                log.error("worker %d ended (%s) and its %d sessions with it: restarting",
                          number, exit_status, worker.num_sessions)  # fmt: skip
                pause_s = _FIRST_PAUSE_S
            elif not self._pool.has_served:
                self._failure = f"worker {number} ended ({exit_status}) before it served: its log has the reason"
                self._stop(signal.SIGTERM)
                return
            else:
                log.error("worker %d ended (%s) before it served: restarting in %g s", number, exit_status, pause_s)
                if await self._stops_within(pause_s):
                    return
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)
            # its slots have gone to the others, which give some back when it is ready
            worker = self._start(dataclasses.replace(self._shares[number], max_sessions=0), folder)

    async def _stops_within(self, pause_s: float) -> bool:
        try:
            async with asyncio.timeout(pause_s):
                return await self._is_stopping.wait()
        except TimeoutError:
            return False

    def _stop(self, reason: signal.Signals) -> None:
        """Let all workers end; kill them at the second SIGINT."""
        self.was_interrupted |= reason == signal.SIGINT
        is_repeated = reason == signal.SIGINT and self._is_stopping.is_set()
        self._send_signal(signal.SIGKILL if is_repeated else signal.SIGTERM)
        self._is_stopping.set()

    def _send_signal(self, number: signal.Signals) -> None:
        for worker in self._pool:
            worker.send_signal(number)
