"""Hands an HTTP request on to the worker that has its session, over that worker's private socket.

A connection goes to the worker of its first request. Of those that follow on it some may mean another's session.
"""

import asyncio
from pathlib import Path

import httptools
from starlette.requests import Request
from starlette.responses import Response

from openenv.core.env_server.commons import SessionElsewhere
from openenv.core.env_server.processes.shared_commons import CALLER_HEADER
from openenv.core.env_server.routes import refusal

_OF_THE_CONNECTION = {b"connection", b"content-length", b"expect", b"keep-alive", b"transfer-encoding"}
_NOT_HANDED_ON = _OF_THE_CONNECTION | {CALLER_HEADER.encode()}
_NOT_HANDED_BACK = _OF_THE_CONNECTION | {b"date", b"server"}


def private_socket(folder: Path, worker: int) -> Path:
    """Where a worker listens for the others."""
    return folder / f"{worker}.sock"


class Forwarding:
    """Answers requests whose session is elsewhere: a handler of SessionElsewhere."""

    def __init__(self, folder: Path, secret: str) -> None:
        """folder: where the private sockets are. secret: see `SharedCommons`."""
        self._folder = folder
        self._secret = secret

    async def __call__(self, request: Request, error: Exception) -> Response:
        """The other worker's answer; that the session is unknown when that worker has ended."""
        assert isinstance(error, SessionElsewhere)
        request_bytes = _request_bytes(request, await request.body(), self._secret)
        try:
            return await _exchange(private_socket(self._folder, error.worker), request_bytes)
        except (OSError, EOFError, httptools.HttpParserError):
            return await refusal(request, error)


def _request_bytes(request: Request, body: bytes, secret: str) -> bytes:
    query = request.scope["query_string"]
    target = request.scope["raw_path"] + (b"?" + query if query else b"")
    caller = request.client.host if request.client else "local"
    head = [
        b"%b %b HTTP/1.1" % (request.method.encode(), target),
        *(b"%b: %b" % header for header in request.headers.raw if header[0] not in _NOT_HANDED_ON),
        f"{CALLER_HEADER}: {secret} {caller}".encode("latin-1"),
        b"content-length: %d" % len(body),
        b"connection: close",
    ]
    return b"\r\n".join([*head, b"", body])


async def _exchange(path: Path, request_bytes: bytes) -> Response:
    """The answer to a request. Raises OSError, EOFError or HttpParserError when the other worker gives none."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(request_bytes)
        answer = _Answer()
        while not answer.is_complete:
            received = await reader.read(1 << 16)
            if not received:
                raise EOFError("the other worker ended before it had answered")
            answer.parser.feed_data(received)
        return answer.response()
    finally:
        writer.close()


class _Answer:
    """An HTTP answer as it comes in; the methods in the middle are the parser's to call."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.is_complete = False
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self.is_complete = True

    def response(self) -> Response:
        """The same as an answer of this worker."""
        response = Response(b"".join(self._body), self.parser.get_status_code())
        own = [header for header in response.raw_headers if header[0] == b"content-length"]
        response.raw_headers = [header for header in self._headers if header[0] not in _NOT_HANDED_BACK] + own
        return response
