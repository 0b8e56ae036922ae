"""The workers as the supervisor's process sees them: which takes a connection, and how many sessions each may hold.

Every worker starts with its share of the slots for sessions. Where one runs short, free slots of another move to it:
the sum stays the server's limit, and no caller waits in one worker while another has room.
"""

import asyncio
import collections
import multiprocessing
import os
import pickle
import signal
import socket
import time
from collections.abc import Callable, Iterator

from openenv.core.env_server.sessions.worker_share import default_worker_of, worker_of
from openenv.hosting.workers import ipc
from openenv.hosting.workers.request_head import RequestHead
from openenv.hosting.workers.worker_main import WorkerSpec, worker_main

_EXPECTED_S = 5.0
"""How long a connection that opens a session counts as one before the worker reports the session."""


class WorkerHandle:
    """One process of one worker. When it ends, another handle takes its number."""

    def __init__(self, spec: WorkerSpec, on_load: "Callable[[WorkerHandle], None]") -> None:
        """Start the process. on_load: is called after each report of the worker.

        Raises ValueError when the application cannot be sent to another process.
        """
        share = spec.share
        self.number = share.number
        self.max_queue = share.max_queue
        self.num_slots = share.max_sessions
        """Sessions that the worker may hold."""
        self.num_sessions = self.num_waiting = 0
        self.is_ready = False
        """Whether it takes connections."""
        self.has_served = False
        """Whether it ever took connections."""
        self.returned_slots = 0
        """Slots that the worker has given back and no other has got yet."""
        self.awaits_slots = False
        """Whether slots were requested from it and it has not answered yet."""
        self._num_requested = 0
        self._expected: collections.deque[float] = collections.deque()
        """Until when each connection that opens a session counts, unless the worker reports it before."""
        self._on_load = on_load
        self._process, connection = _start(spec)
        self._channel = ipc.Channel(connection, self._on_message, self._on_closed)

    @property
    def pid(self) -> int | None:
        """The process id."""
        return self._process.pid

    @property
    def load(self) -> int:
        """Sessions that the worker has, queues, or is about to open."""
        now = time.monotonic()
        while self._expected and self._expected[0] < now:
            self._expected.popleft()
        return self.num_sessions + self.num_waiting + len(self._expected)

    @property
    def num_free(self) -> int:
        """Slots that are free; below 0: callers that wait for one."""
        return self.num_slots - self.load

    def hand_over(self, connection: socket.socket, *, opens_session: bool) -> None:
        """Give the worker a connection."""
        if opens_session:
            self._expected.append(time.monotonic() + _EXPECTED_S)
        self._channel.send_connection(connection)

    def add_slots(self, number: int) -> None:
        """Let the worker hold more sessions."""
        self.num_slots += number
        self._channel.send(ipc.ADD_SLOTS, number)

    def request_slots(self, number: int) -> None:
        """Ask the worker for free slots; it reports how many it gives back."""
        self.awaits_slots = True
        self._channel.send(ipc.REQUEST_SLOTS, number)

    async def ended(self) -> str:
        """Wait until the process has ended. Returns how: `exit code 3` or `signal SIGKILL`."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self._process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        self._process.join()
        self.is_ready = False
        self._channel.close()
        code = self._process.exitcode or 0
        return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, number)

    def _on_message(self, message: ipc.ChannelMessage) -> None:
        if message.kind == ipc.RETURN_SLOTS:
            (number,) = message.numbers
            self.awaits_slots = False
            self.num_slots -= number
            self.returned_slots += number
        else:
            self.num_sessions, self.num_waiting, num_requested = message.numbers
            for _ in range(min(num_requested - self._num_requested, len(self._expected))):
                self._expected.popleft()
            self._num_requested = num_requested
            self.is_ready = self.has_served = True
        self._on_load(self)

    def _on_closed(self) -> None:
        """The worker is ending and takes no more connections."""
        self.is_ready = False


def _start(spec: WorkerSpec) -> tuple[multiprocessing.process.BaseProcess, socket.socket]:
    ours, theirs = ipc.channel_pair()
    process = multiprocessing.get_context("spawn").Process(
        target=worker_main, args=(spec, theirs), name=f"worker {spec.share.number}"
    )
    with theirs:
        try:
            process.start()
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            ours.close()
            raise ValueError(
                f"workers={spec.share.num_workers}: the application cannot be made in another process ({error}). "
                "Serve 'MODULE:APP', or a function of a module that returns it"
            ) from error
    return process, ours


_RESERVE = 4
"""A worker with fewer free slots gets some of the worker that has the most."""


class WorkerPool:
    """The workers by their numbers, each in its current process."""

    def __init__(self, num_workers: int) -> None:
        self.has_served = False
        """Whether all workers were ready at one time."""
        self.is_open = asyncio.Event()
        """Set while a worker takes connections, after all were ready once."""
        self._num_workers = num_workers
        self._workers: dict[int, WorkerHandle] = {}
        self._last = 0
        self._num_unassigned = 0
        """Slots that no worker has at the moment."""

    def __iter__(self) -> Iterator[WorkerHandle]:
        return iter(self._workers.values())

    def add(self, worker: WorkerHandle) -> None:
        """Add a worker that was started, in place of an earlier process of its number."""
        self._workers[worker.number] = worker

    def worker_for(self, head: RequestHead, caller: str) -> WorkerHandle | None:
        """The worker of the session that a request names; else the least loaded one. None while no worker is ready."""
        number: int | None = None
        if head.session_id is not None:
            number = worker_of(head.session_id, self._num_workers)
        elif head.uses_default_session:
            number = default_worker_of(caller, self._num_workers)
        if number is not None and self._workers[number].is_ready:
            return self._workers[number]
        return self._least_loaded()

    def _least_loaded(self) -> WorkerHandle | None:
        """One with a free slot, else one with room in its queue. Equally loaded workers take turns."""
        numbers = ((self._last + offset) % self._num_workers for offset in range(1, self._num_workers + 1))
        ready = [self._workers[number] for number in numbers if self._workers[number].is_ready]

        def rank(worker: WorkerHandle) -> tuple[bool, bool, int]:
            return worker.num_free <= 0, worker.num_free + worker.max_queue <= 0, worker.load

        worker = min(ready, key=rank, default=None)
        if worker is not None:
            self._last = worker.number
        return worker

    def on_load(self, worker: WorkerHandle) -> None:
        """A worker has reported its load: it is ready, and may have too few or too many slots now."""
        self.has_served = self.has_served or all(one.is_ready for one in self)
        if self.has_served:
            self.is_open.set()
        self._num_unassigned += worker.returned_slots
        worker.returned_slots = 0
        self._balance()

    def on_ended(self, worker: WorkerHandle) -> None:
        """A worker has ended: the others get its slots. The process that follows it starts with none."""
        self._num_unassigned += worker.num_slots
        worker.num_slots = 0
        if not any(one.is_ready for one in self):
            self.is_open.clear()
        self._balance()

    def _balance(self) -> None:
        """Give out the slots that no worker has, and request some of the freest worker for one that runs short."""
        ready = [worker for worker in self if worker.is_ready]
        while ready:
            # of two with equally many free slots the one with less to do: else an odd slot moves to and fro for ever
            poorest = min(ready, key=lambda worker: (worker.num_free, worker.load))
            if self._num_unassigned:
                number = -(-self._num_unassigned // len(ready))
                self._num_unassigned -= number
                poorest.add_slots(number)
                continue
            freest = max(ready, key=lambda worker: worker.num_free)
            is_uneven = poorest.load < freest.load  # then the worker with less to do gets the odd slot
            excess = (freest.num_free - poorest.num_free + is_uneven) // 2
            if excess and poorest.num_free < _RESERVE and not freest.awaits_slots:
                freest.request_slots(excess)
            return
