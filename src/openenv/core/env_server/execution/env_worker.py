"""A forked process that runs one environment and answers requests of the server over a socket.

Requests and responses are JSON. The server unpickles nothing that comes from a worker.
"""

import socket
import struct
import sys
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

REQUEST_LENGTH = struct.Struct(">I")
RESPONSE_HEAD = struct.Struct(">cddII")
"""Kind of a response, seconds in the environment, seconds of encoding, number of steps, length of the body."""


def run_worker(spec: EnvSpec, arguments: MethodArguments, connection: socket.socket) -> None:
    """Answer requests until the server closes the socket."""
    worker = _Worker(spec, arguments)
    with connection, connection.makefile("rb") as requests:
        while head := requests.read(REQUEST_LENGTH.size):
            request = orjson.loads(requests.read(REQUEST_LENGTH.unpack(head)[0]))
            head, body = worker.respond(request)
            sys.stdout.flush()
            connection.sendall(head + body)


class _Worker:
    def __init__(self, spec: EnvSpec, arguments: MethodArguments) -> None:
        self._spec = spec
        self._arguments = arguments
        self._loop = BackgroundLoop()
        self._runner: EnvRunner | None = None

    def respond(self, request: dict[str, Any]) -> tuple[bytes, bytes]:
        """Head and body of the response.

        Kinds: `a` the episode goes on, `d` it is done, `t` it is truncated, `e` error; upper case if arrays follow.
        """
        try:
            response = self._run(request)
        except RequestRefused as error:
            body = error_json(error_data(error))
            return RESPONSE_HEAD.pack(b"e", 0.0, 0.0, 0, len(body)), body
        kind = b"t" if response.truncated else b"d" if response.done else b"a"
        body = response.data
        if response.arrays:
            kind, body = kind.upper(), pack(body, response.arrays)
        head = RESPONSE_HEAD.pack(kind, response.environment_s, response.encode_s, response.num_steps, len(body))
        return head, body

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
