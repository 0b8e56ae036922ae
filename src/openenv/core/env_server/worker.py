"""A worker process for each session, so that whatever an environment does to its process ends that session alone.

A nursery process, started fresh and free of threads, forks the workers: the environment's module is imported once, and
a new worker costs milliseconds. Server and worker talk JSON over a socket of their own; nothing that a worker says is
ever unpickled.
"""

import asyncio
import contextlib
import json
import logging
import multiprocessing
import pickle
import socket
from dataclasses import asdict
from typing import Any

import orjson

from openenv.core.arrays import is_array, split
from openenv.core.env_server.declaration import Declaration
from openenv.core.env_server.episode_log import current_episode, logging_choice
from openenv.core.env_server.hosts import Host
from openenv.core.env_server.manner import PLAIN, Manner
from openenv.core.env_server.nursery import ANSWER_HEAD, REQUEST_LENGTH, nursery_main
from openenv.core.env_server.verbs import Answer
from openenv.core.errors import FactoryFault, InvalidMessage, TimeLimitExceeded, WorkerCrashed, error_from_wire

log = logging.getLogger(__name__)

_MAX_MESSAGE = 1 << 30


class Nursery:
    """The process that forks workers for one server."""

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration
        self._process: multiprocessing.process.BaseProcess | None = None
        self._control: socket.socket | None = None
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Start the process. Raises FactoryFault when the environment cannot be sent to it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(
            target=nursery_main, args=(self._declaration, theirs, logging_choice()), daemon=True
        )
        try:
            await asyncio.to_thread(self._process.start)
        except (AttributeError, TypeError, OSError, ValueError, pickle.PicklingError) as error:
            raise FactoryFault(
                f"{self._declaration.name} cannot run in worker processes ({error}): "
                "serve a class, or a functools.partial of one, that a module defines"
            ) from error
        finally:
            theirs.close()
        self._control = ours

    async def fork(self) -> tuple[int, socket.socket]:
        """A new worker: its process id and our end of its socket. Raises FactoryFault when the nursery is gone."""
        ours, theirs = socket.socketpair()
        with theirs:
            reply = await self._ask(b"fork", [theirs.fileno()])
        if reply.startswith(b"!"):
            ours.close()
            raise FactoryFault(f"no process could be made for {self._declaration.name}: {reply[1:].decode()}")
        ours.setblocking(False)
        return int(reply), ours

    async def fate(self, pid: int) -> str:
        """How a worker ended, once it has: `exit code 3` or `signal SIGSEGV`."""
        with contextlib.suppress(FactoryFault):
            return (await self._ask(b"fate %d" % pid)).decode()
        return "unknown"

    async def kill(self, pid: int) -> None:
        """End a worker that may have ended already; the nursery knows whether the id is still the worker's."""
        with contextlib.suppress(FactoryFault):  # a nursery that is gone has taken its workers with it
            await self._ask(b"kill %d" % pid)

    async def stop(self) -> None:
        """End the nursery and every worker of it."""
        if self._control is not None:
            self._control.close()  # the nursery sees the end of its socket, kills its workers and exits
        if self._process is not None:
            await asyncio.to_thread(self._process.join, 5.0)
            if self._process.is_alive():
                self._process.kill()

    async def _ask(self, message: bytes, fds: list[int] | None = None) -> bytes:
        async with self._turn:
            if self._control is None:
                await self.start()
            assert self._control is not None
            exchange = asyncio.ensure_future(asyncio.to_thread(self._exchange, self._control, message, fds or []))
            try:
                return await asyncio.shield(exchange)
            except asyncio.CancelledError:
                await asyncio.wait({exchange})  # else the next to ask would be told what this one is
                raise
            except FactoryFault:
                self._control.close()
                self._control = None  # the next to ask gets a new nursery
                raise

    def _exchange(self, control: socket.socket, message: bytes, fds: list[int]) -> bytes:
        try:
            socket.send_fds(control, [message], fds)
            reply = control.recv(1024)
        except OSError as error:
            raise FactoryFault(f"the nursery of {self._declaration.name} is gone: {error}") from error
        if not reply:
            raise FactoryFault(f"the nursery of {self._declaration.name} could not start: see the server's log")
        return reply


class WorkerHost(Host):
    """Runs the verbs in a worker process. What outlives its limit is killed."""

    def __init__(self, nursery: Nursery, manner: Manner = PLAIN) -> None:
        self._nursery = nursery
        self._manner = manner
        self._pid = 0
        self._open_timeout_s = 0.0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, timeout_s: float) -> None:
        self._open_timeout_s = timeout_s
        self._pid, connection = await self._nursery.fork()
        self._reader, self._writer = await asyncio.open_unix_connection(sock=connection, limit=_MAX_MESSAGE)
        try:
            await self._ask({"verb": "open", "manner": asdict(self._manner)}, timeout_s)
        except (WorkerCrashed, TimeLimitExceeded) as error:
            raise FactoryFault(f"the environment could not be made: {error.message}") from error

    async def call(self, verb: str, data: dict[str, Any], options: dict[str, Any], timeout_s: float) -> Answer:
        if verb == "load":
            data = {"snapshot": data["snapshot"].hex()}
        episode = tuple(current_episode.get() or ())
        return await self._ask({"verb": verb, "data": data, "options": options, "episode": episode}, timeout_s)

    async def restart(self) -> None:
        await self._end()
        await self.open(self._open_timeout_s)

    async def close(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(WorkerCrashed, TimeLimitExceeded):
                await self._ask({"verb": "close"}, timeout_s=5.0)
        await self._end()

    async def _ask(self, request: dict[str, Any], timeout_s: float) -> Answer:
        """Send a request and read its answer. Raises what the worker says, TimeLimitExceeded, or WorkerCrashed."""
        if self._reader is None or self._writer is None:
            raise WorkerCrashed("the environment's process has ended: reset the session")
        try:
            message = orjson.dumps(request, default=_listed)
        except TypeError as error:  # half a surrogate pair, a huge integer, a nest of hundreds of arrays
            raise InvalidMessage(f"the environment runs in a process, which cannot be told that: {error}") from None
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(REQUEST_LENGTH.pack(len(message)) + message)
                head = await self._reader.readexactly(ANSWER_HEAD.size)
                kind, environment_s, encode_s, num_steps, length = ANSWER_HEAD.unpack(head)
                body = await self._reader.readexactly(length)
        except TimeoutError:
            await self._end()
            raise TimeLimitExceeded(
                f"{request['verb']} took longer than its limit of {timeout_s:g} s: reset the session"
            ) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            fate = await self._nursery.fate(self._pid)
            await self._end()
            raise WorkerCrashed(
                f"the environment's process ended during {request['verb']} ({fate}): reset the session"
            ) from None
        except asyncio.CancelledError:
            await self._end()  # its answer would be read as the next one's
            raise
        if kind == b"e":
            raise error_from_wire(json.loads(body))
        done, truncated = kind in b"dtDT", kind in b"tT"
        if kind.islower():
            return Answer(body, done, truncated, environment_s, encode_s, num_steps=num_steps)
        data, start = split(body)
        return Answer(data, done, truncated, environment_s, encode_s, (body[start:],), num_steps)

    async def _end(self) -> None:
        """Kill the process and forget it."""
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None
        pid, self._pid = self._pid, 0
        if pid:
            await self._nursery.kill(pid)


def _listed(value: Any) -> Any:
    """A client's arrays, for a worker that reads JSON."""
    if is_array(value):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
