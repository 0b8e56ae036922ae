"""HTTP between the workers of one server, over the private Unix socket of each.

A connection goes to the worker of its first request. A later request on it may be for a session of another worker and
is forwarded there. Metrics and readiness are gathered from all workers by the one that answers.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import httptools
import orjson
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response

from openenv.core.env_server.http.route_class import refusal
from openenv.core.env_server.http.sessions import CALLER_HEADER
from openenv.core.env_server.sessions.worker_share import WrongWorker

log = logging.getLogger(__name__)

_GATHER_TIMEOUT_S = 2.0
_HOP_HEADERS = {b"connection", b"content-length", b"expect", b"keep-alive", b"transfer-encoding"}
_NOT_FORWARDED = _HOP_HEADERS | {CALLER_HEADER.encode()}
_NOT_RETURNED = _HOP_HEADERS | {b"date", b"server"}
_GATHER_HEADERS = {b"authorization", b"host"}

Headers = Iterable[tuple[bytes, bytes]]


def private_socket(folder: Path, worker: int) -> Path:
    """Where a worker listens for the others."""
    return folder / f"{worker}.sock"


class PeerWorkers:
    """The other workers of a server, as one of them reaches them."""

    def __init__(self, folder: Path, number: int, num_workers: int) -> None:
        """number: of the worker that uses this object."""
        self._folder = folder
        self._number = number
        self._others = [worker for worker in range(num_workers) if worker != number]

    async def forward(self, request: Request, error: Exception) -> Response:
        """Handle WrongWorker: the response of the right worker, or the error itself when that one does not answer."""
        assert isinstance(error, WrongWorker)
        query = request.scope["query_string"]
        target = request.scope["raw_path"] + (b"?" + query if query else b"")
        caller = request.client.host if request.client else "local"
        headers = [header for header in request.headers.raw if header[0] not in _NOT_FORWARDED]
        headers.append((CALLER_HEADER.encode(), caller.encode("latin-1")))
        method = request.method.encode()
        try:
            return await self._exchange(error.worker, method, target, headers, await request.body())
        except (OSError, EOFError, httptools.HttpParserError):
            return refusal(error)

    async def num_sessions(self, request: Request) -> int:
        """Sessions of the other workers, by their `/ready`."""
        bodies = await self._gather(request, b"/ready")
        return sum(orjson.loads(body)["sessions"] for body in bodies.values())

    async def watchable_sessions(self, request: Request) -> list[dict[str, Any]]:
        """What the other workers list at `/web/watch/sessions`."""
        bodies = await self._gather(request, b"/web/watch/sessions")
        return [row for body in bodies.values() for row in orjson.loads(body)]

    async def metrics(self, request: Request, own: bytes) -> bytes:
        """The metrics of all workers in Prometheus' text format, with a label `worker`. own: this worker's."""
        if request.client is None:
            return own  # another worker gathers
        return _merge({self._number: own, **await self._gather(request, b"/metrics")})

    async def _gather(self, request: Request, target: bytes) -> dict[int, bytes]:
        """The response body of each other worker that answers in time; none for a request that came from a worker."""
        if request.client is None:
            return {}
        headers = [header for header in request.headers.raw if header[0] in _GATHER_HEADERS]
        bodies = await asyncio.gather(*(self._body(worker, target, headers) for worker in self._others))
        return {worker: body for worker, body in zip(self._others, bodies, strict=True) if body is not None}

    async def _body(self, worker: int, target: bytes, headers: Headers) -> bytes | None:
        try:
            async with asyncio.timeout(_GATHER_TIMEOUT_S):
                response = await self._exchange(worker, b"GET", target, headers)
        except (OSError, EOFError, httptools.HttpParserError) as error:  # TimeoutError among them
            log.warning("%s leaves worker %d out: %s", target.decode(), worker, error or "no response in time")
            return None
        return bytes(response.body)

    async def _exchange(
        self, worker: int, method: bytes, target: bytes, headers: Headers, body: bytes = b""
    ) -> Response:
        """The response to a request. Raises OSError, EOFError or HttpParserError when the worker gives none."""
        lines = [b"%b %b HTTP/1.1" % (method, target), *(b"%b: %b" % header for header in headers)]
        lines += [b"content-length: %d" % len(body), b"connection: close", b"", body]
        reader, writer = await asyncio.open_unix_connection(private_socket(self._folder, worker))
        try:
            writer.write(b"\r\n".join(lines))
            response = _ResponseReader()
            while not response.is_complete:
                received = await reader.read(1 << 16)
                if not received:
                    raise EOFError("the worker ended before it had answered")
                response.parser.feed_data(received)
            return response.result()
        finally:
            writer.close()


class _ResponseReader:
    """An HTTP response while it is received; httptools calls the methods whose names begin with `on`."""

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

    def result(self) -> Response:
        """The same response, to be sent by this worker."""
        response = Response(b"".join(self._body), self.parser.get_status_code())
        own = [header for header in response.raw_headers if header[0] == b"content-length"]
        response.raw_headers = [header for header in self._headers if header[0] not in _NOT_RETURNED] + own
        return response


def _merge(texts: Mapping[int, bytes]) -> bytes:
    """Prometheus' text of several workers as one. texts: that of each worker by its number."""
    families: dict[str, Metric] = {}
    for worker, text in sorted(texts.items()):
        for family in text_string_to_metric_families(text.decode()):
            merged = families.setdefault(
                family.name, Metric(family.name, family.documentation, family.type, family.unit)
            )
            merged.samples += [
                sample._replace(labels={"worker": str(worker), **sample.labels}) for sample in family.samples
            ]
    registry = CollectorRegistry()
    registry.register(_MergedFamilies(families.values()))
    return generate_latest(registry)


class _MergedFamilies(Collector):
    """Hands metric families to the Prometheus library as they are."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
