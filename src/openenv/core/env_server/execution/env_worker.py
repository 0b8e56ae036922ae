"""A forked process that runs one environment and answers requests of the server over a socket.

Requests and responses are JSON. The server unpickles nothing that comes from a worker.
"""

import os
import socket
import struct
import sys
from functools import partial
from typing import Any

import orjson

from openenv.core.env_server.execution.background_loop import BackgroundLoop
from openenv.core.env_server.observability.log_context import EpisodeContext, current_episode
from openenv.core.env_server.runner.env_runner import EncodedResponse, EnvRunner
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.runner.environment_calls import MethodArguments
from openenv.core.env_server.runner.session_options import SessionOptions, make_runner
from openenv.core.errors import RequestRefused
from openenv.core.wire.arrays import pack
from openenv.core.wire.server_codec import error_data, error_json

REQUEST_HEAD = struct.Struct(">II")
"""Number of a request, length of its body."""
RESPONSE_HEAD = struct.Struct(">IcddII")
"""Number of the request, kind of its response, seconds in the environment, seconds of encoding, number of steps, length
of the body."""


def run_worker(spec: EnvSpec, arguments: MethodArguments, connection: socket.socket) -> None:
    """Answer requests until the server closes the socket.

    A process that the environment forks cannot answer, also when it returns from the environment's `step`.
    """
    os.register_at_fork(after_in_child=partial(_take_away, connection.fileno()))
    worker = _Worker(spec, arguments)
    with connection, connection.makefile("rb") as requests:
        while head := requests.read(REQUEST_HEAD.size):
            number, length = REQUEST_HEAD.unpack(head)
            response = worker.respond(number, orjson.loads(requests.read(length)))
            sys.stdout.flush()
            connection.sendall(response)


def _take_away(fd: int) -> None:
    """Let a socket's descriptor lead nowhere. Closed, its number would soon be that of a file of the environment."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, fd)
    os.close(nowhere)


class _Worker:
    def __init__(self, spec: EnvSpec, arguments: MethodArguments) -> None:
        self._spec = spec
        self._arguments = arguments
        self._loop = BackgroundLoop()
        self._runner: EnvRunner | None = None

    def respond(self, number: int, request: dict[str, Any]) -> bytes:
        """The response to the request of that number, head and body.

        Kinds: `a` the episode goes on, `d` it is done, `t` it is truncated, `e` error; upper case if arrays follow.
        """
        try:
            response = self._run(request)
        except RequestRefused as error:
            body = error_json(error_data(error))
            return RESPONSE_HEAD.pack(number, b"e", 0.0, 0.0, 0, len(body)) + body
        kind = b"t" if response.truncated else b"d" if response.done else b"a"
        body = response.data
        if response.arrays:
            kind, body = kind.upper(), pack(body, response.arrays)
        times = response.environment_s, response.encode_s
        return RESPONSE_HEAD.pack(number, kind, *times, response.num_steps, len(body)) + body

    def _run(self, request: dict[str, Any]) -> EncodedResponse:
        verb, data = request["verb"], request.get("data", {})
        if verb == "open":
            options = SessionOptions.from_dict(request["options"])
            self._runner = make_runner(self._spec, self._arguments, self._loop.submit, options)
            return EncodedResponse(orjson.dumps({"allow_step_after_done": self._runner.env.ALLOWS_STEP_AFTER_DONE}))
        assert self._runner is not None, "open comes first"
        current_episode.set(EpisodeContext(*request["episode"]) if request.get("episode") else None)
        if verb == "close":
            self._runner.close()
            return EncodedResponse(b"")
        if verb == "load":
            data = {"snapshot": bytes.fromhex(data["snapshot"])}
        keywords = request.get("keywords", {})
        if verb in self._runner.async_verbs:
            response: EncodedResponse = self._loop.submit(self._runner.call_async(verb, data, keywords)).result()
            return response
        return self._runner.call(verb, data, keywords)
