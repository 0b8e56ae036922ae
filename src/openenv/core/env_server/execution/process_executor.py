"""Runs the environment of one session in a process of its own: a crash of it ends that session alone."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from openenv.core.env_server.execution.env_worker import REQUEST_HEAD, RESPONSE_HEAD
from openenv.core.env_server.execution.executors import CLOSE_TIMEOUT_S, EnvExecutor
from openenv.core.env_server.execution.fork_server import ForkServer
from openenv.core.env_server.observability.log_context import current_episode
from openenv.core.env_server.runner.env_runner import EncodedResponse
from openenv.core.env_server.runner.session_options import DEFAULT_OPTIONS, SessionOptions
from openenv.core.errors import FactoryFault, InvalidMessage, TimeLimitExceeded, WorkerCrashed, error_from_wire
from openenv.core.wire.arrays import split
from openenv.core.wire.json_codec import to_plain

log = logging.getLogger(__name__)

_MAX_MESSAGE_BYTES = 1 << 30


class ProcessExecutor(EnvExecutor):
    """Runs verbs in a forked worker, and kills a worker that outlives a limit."""

    def __init__(self, fork_server: ForkServer, options: SessionOptions = DEFAULT_OPTIONS) -> None:
        self._fork_server = fork_server
        self._options = options
        self._pid = 0
        self._num_requests = 0
        self._open_timeout_s = 0.0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, timeout_s: float) -> None:
        self._open_timeout_s = timeout_s
        self._pid, connection = await self._fork_server.fork()
        self._reader, self._writer = await asyncio.open_unix_connection(sock=connection, limit=_MAX_MESSAGE_BYTES)
        try:
            opened = await self._request({"verb": "open", "options": asdict(self._options)}, timeout_s)
        except (WorkerCrashed, TimeLimitExceeded) as error:
            raise FactoryFault(f"the environment could not be made: {error.message}") from error
        self.allow_step_after_done = json.loads(opened.data)["allow_step_after_done"]

    async def call(
        self, verb: str, data: dict[str, Any], keywords: Mapping[str, Any], timeout_s: float
    ) -> EncodedResponse:
        if verb == "load":
            data = {"snapshot": data["snapshot"].hex()}
        episode = tuple(current_episode.get() or ())
        request = {"verb": verb, "data": data, "keywords": dict(keywords), "episode": episode}
        return await self._request(request, timeout_s)

    async def restart(self) -> None:
        await self._kill()
        await self.open(self._open_timeout_s)

    async def close(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(WorkerCrashed, TimeLimitExceeded):
                await self._request({"verb": "close"}, CLOSE_TIMEOUT_S)
        await self._kill()

    async def _request(self, request: dict[str, Any], timeout_s: float) -> EncodedResponse:
        """Send a request and read its response. Raises the worker's error, TimeLimitExceeded, or WorkerCrashed."""
        if self._reader is None or self._writer is None:
            raise WorkerCrashed("the environment's process has ended: reset the session")
        try:
            message = orjson.dumps(request, default=to_plain)
        except TypeError as error:  # half a surrogate pair, a huge integer, hundreds of nested arrays
            raise InvalidMessage(f"an environment in a process of its own cannot take this: {error}") from None
        number = self._num_requests = (self._num_requests + 1) & 0xFFFF_FFFF
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(REQUEST_HEAD.pack(number, len(message)) + message)
                head = await self._reader.readexactly(RESPONSE_HEAD.size)
                answered, kind, environment_s, encode_s, num_steps, length = RESPONSE_HEAD.unpack(head)
                if answered != number:
                    await self._kill()
                    raise WorkerCrashed("the environment's process wrote into the server's socket: reset the session")
                body = await self._reader.readexactly(length)
        except TimeoutError:
            await self._kill()
            raise TimeLimitExceeded(
                f"{request['verb']} took longer than its limit of {timeout_s:g} s: reset the session"
            ) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            status = await self._fork_server.exit_status(self._pid)
            await self._kill()
            raise WorkerCrashed(
                f"the environment's process ended during {request['verb']} ({status}): reset the session"
            ) from None
        except asyncio.CancelledError:
            await self._kill()  # else the next request would read this response
            raise
        if kind == b"e":
            raise error_from_wire(json.loads(body))
        done, truncated = kind in b"dtDT", kind in b"tT"
        if kind.islower():
            return EncodedResponse(body, done, truncated, environment_s, encode_s, num_steps=num_steps)
        data, start = split(body)
        return EncodedResponse(data, done, truncated, environment_s, encode_s, (body[start:],), num_steps)

    async def _kill(self) -> None:
        """Kill the process and forget it."""
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None
        pid, self._pid = self._pid, 0
        if pid:
            await self._fork_server.kill(pid)
