"""The front door's process: starts the workers, starts them again when they die, and ends them together."""

import asyncio
import logging
import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.episode_log import logging_choice
from openenv.core.env_server.places import Places
from openenv.core.env_server.processes.commons_keeper import CommonsKeeper
from openenv.core.env_server.processes.front_door import FrontDoor
from openenv.core.env_server.processes.serving_worker import Assignment
from openenv.core.env_server.processes.worker_process import WorkerProcess
from openenv.core.env_server.snapshots import Snapshots

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
"""Before a worker is started again that ended before it served."""


class Supervisor:
    """A server of several workers."""

    def __init__(
        self,
        source: "Callable[[], FastAPI]",
        num_workers: int,
        max_sessions: int,
        config: ServerConfig,
        log_level: str,
    ) -> None:
        """source: makes the application, in each worker. max_sessions: of all of them. log_level: uvicorn's."""
        self._source = source
        self._num_workers = num_workers
        self._log_level = log_level
        self._secret = secrets.token_hex(16)
        self._workers: list[WorkerProcess] = []
        places = Places(max_sessions, config.max_waiting, config.max_wait_s)
        snapshots = Snapshots(config.max_snapshots, config.max_snapshot_bytes)
        self._keeper = CommonsKeeper(places, snapshots, self._workers)
        self._is_open = asyncio.Event()
        self._is_stopping = asyncio.Event()
        self._has_served = False
        self._failure: str | None = None

    async def run(self, listeners: Sequence[socket.socket]) -> None:
        """Serve until interrupted or asked to stop; steps that run are finished first, unless interrupted twice.

        Raises RuntimeError when a worker ends before all have begun to serve.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop, number)
        with tempfile.TemporaryDirectory(prefix="openenv-") as folder:
            try:
                self._workers += [self._start(number, Path(folder)) for number in range(self._num_workers)]
                await self._serve(listeners, Path(folder))
            finally:
                self._signal(signal.SIGKILL)
        if self._failure is not None:
            raise RuntimeError(self._failure)

    async def _serve(self, listeners: Sequence[socket.socket], folder: Path) -> None:
        async with asyncio.TaskGroup() as group:
            door = group.create_task(FrontDoor(self._workers, self._is_open).serve(listeners))
            keeping = [group.create_task(self._keep(number, folder)) for number in range(self._num_workers)]
            await asyncio.wait(keeping)
            door.cancel()

    def _start(self, number: int, folder: Path) -> WorkerProcess:
        assignment = Assignment(
            source=self._source,
            number=number,
            num_workers=self._num_workers,
            front_door_pid=os.getpid(),
            folder=folder,
            secret=self._secret,
            log_level=self._log_level,
            logging_choice=logging_choice(),
        )
        worker = WorkerProcess(assignment, self._keeper, self._on_ready)
        log.info("worker %d starts: pid=%d", number, worker.pid)
        return worker

    async def _keep(self, number: int, folder: Path) -> None:
        """Start a worker again whenever it ends, until the server stops."""
        pause_s = _FIRST_PAUSE_S
        while True:
            worker = self._workers[number]
            fate = await worker.ended()
            num_sessions, was_serving = worker.num_taken, worker.has_served
            self._keeper.forget(worker)
            if not any(other.is_ready for other in self._workers):
                self._is_open.clear()
            if self._is_stopping.is_set():
                return
            if was_serving:
                log.error("worker %d ended (%s), its %d sessions with it: starts again", number, fate, num_sessions)
                pause_s = _FIRST_PAUSE_S
            elif not self._has_served:
                self._failure = f"worker {number} ended ({fate}) before it served: its log says why"
                self._stop(signal.SIGTERM)
                return
            else:
                log.error("worker %d ended (%s) before it served: starts again in %g s", number, fate, pause_s)
                if await self._stops_within(pause_s):
                    return
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            self._workers[number] = self._start(number, folder)

    async def _stops_within(self, pause_s: float) -> bool:
        try:
            async with asyncio.timeout(pause_s):
                return await self._is_stopping.wait()
        except TimeoutError:
            return False

    def _stop(self, reason: signal.Signals) -> None:
        """Ask all workers to end; insist when somebody is interrupting again."""
        is_impatient = reason == signal.SIGINT and self._is_stopping.is_set()
        self._signal(signal.SIGKILL if is_impatient else signal.SIGTERM)
        self._is_stopping.set()

    def _signal(self, number: signal.Signals) -> None:
        for worker in self._workers:
            worker.send_signal(number)

    def _on_ready(self, worker: WorkerProcess) -> None:
        """The front door opens when all workers are ready; from then on one is enough."""
        log.info("worker %d is ready: pid=%d", worker.number, worker.pid)
        self._has_served = self._has_served or all(worker.is_ready for worker in self._workers)
        if self._has_served:
            self._is_open.set()
