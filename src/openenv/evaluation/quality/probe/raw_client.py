"""A raw WebSocket client for the checks: it sends frames and returns the responses as they are.

The checks must see what a server does. Our own clients would hide it: they reconnect and repeat requests.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Subprotocol

from openenv.core.errors import OpenEnvError, ServerUnreachable, error_from_wire
from openenv.core.wire.constants import SUBPROTOCOL

_RETRY_FULL_S = 3.0
_PAUSE_S = 0.05


class ResponseTimeout(OpenEnvError):
    """A request received no response in time."""


class ConnectionLost(OpenEnvError):
    """The server closed the connection instead of responding."""


class RequestFailed(OpenEnvError):
    """The server returned an error to a request that must succeed."""


class ServerFull(OpenEnvError):
    """The server accepts no more sessions."""


@dataclass(frozen=True, slots=True)
class RawFrame:
    """A frame that the server sent."""

    raw: str
    kind: str
    data: dict[str, Any]
    comparable: str
    """The frame without its id. In the published dialect it is unchanged."""

    @property
    def is_error(self) -> bool:
        """Whether the request was refused."""
        return self.kind == "error"

    @property
    def code(self) -> str:
        """The error's code."""
        return str(self.data.get("code", ""))

    @property
    def message(self) -> str:
        """Code and message of the error with the fields that are wrong, cut to a line."""
        return f"{self.code} {str(error_from_wire(self.data))[:200]}"

    @property
    def observation(self) -> dict[str, Any]:
        """The observation; empty if there is none."""
        observation = self.data.get("observation")
        return observation if isinstance(observation, dict) else {}

    @property
    def metadata(self) -> dict[str, Any]:
        """The observation's metadata; empty if there is none."""
        added = self.data.get("metadata") or self.observation.get("metadata")
        return added if isinstance(added, dict) else {}

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return bool(self.data.get("done"))


@dataclass(frozen=True, kw_only=True)
class ServerAddress:
    """URL, timeout and headers of the requests to a server."""

    base_url: str
    timeout_s: float
    """Seconds after which a request times out."""
    headers: Mapping[str, str]
    """Headers of every request, such as `Authorization`."""

    def socket_url(self, session_id: str | None) -> str:
        """URL of `/ws`, for a new session or for the session with that id."""
        query = f"?session_id={session_id}" if session_id else ""
        return f"ws{self.base_url.removeprefix('http').rstrip('/')}/ws{query}"


class RawClient:
    """A session on its own connection, which `async with` opens and closes."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        extended: bool = False,
        session_id: str | None = None,
        retry_when_full: bool = True,
        reset: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Args:
            extended: offer the dialect with ids and snapshots.
            session_id: attach to that session.
            retry_when_full: try again for three seconds if the server is full, since a closed session takes a moment to
                release its place.
            reset: keywords of every reset that begins an episode.
        """
        self.address = address
        self.reset = reset or {}
        self.is_extended = False
        self._offered = [Subprotocol(SUBPROTOCOL)] if extended else None
        self._session_id = session_id
        self._retry_when_full = retry_when_full
        self._ids = itertools.count(1)
        self._connection: ClientConnection | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises ServerUnreachable without a server, ServerFull if it accepts no more sessions."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (_RETRY_FULL_S if self._retry_when_full else 0.0)
        while True:
            async with contextlib.AsyncExitStack() as on_error:
                on_error.push_async_callback(self.close)  # a half-open connection occupies a session
                try:
                    await self._open()
                except ServerFull:
                    if loop.time() > deadline:
                        raise
                else:
                    on_error.pop_all()
                    return self
            await asyncio.sleep(_PAUSE_S)

    async def _open(self) -> None:
        try:
            self._connection = await connect(
                self.address.socket_url(self._session_id),
                subprotocols=self._offered, additional_headers=dict(self.address.headers), proxy=None,
                open_timeout=self.address.timeout_s, ping_interval=None, compression=None, max_size=None,
                close_timeout=1.0,
            )  # fmt: skip
        except TimeoutError:
            raise ResponseTimeout(f"/ws did not open within {self.address.timeout_s:g} s") from None
        except (OSError, InvalidHandshake) as error:
            raise ServerUnreachable(f"/ws does not open: {error}") from error
        self.is_extended = self._connection.subprotocol == SUBPROTOCOL
        if not self.is_extended:  # there a server only sends first when it is full
            with contextlib.suppress(
                ConnectionLost
            ):  # a full server may have closed already; its error is still to be read
                await self.send('{"type":"state"}')
        _raise_if_full(await self.receive("a new session"))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Send `close` and close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(ConnectionClosed):
                await connection.send('{"type":"close"}')
            await connection.close()

    async def close_code(self) -> int | None:
        """Send `close`. Returns the code with which the server closes the connection. Raises ResponseTimeout."""
        assert self._connection is not None, "the client is not connected"
        await self.send('{"type":"close"}')
        try:
            async with asyncio.timeout(self.address.timeout_s):
                await self._connection.wait_closed()
        except TimeoutError:
            raise ResponseTimeout(f"no response to `close` within {self.address.timeout_s:g} s") from None
        return self._connection.close_code

    async def send(self, frame: str | bytes) -> None:
        """Send a frame: a text frame for str, a binary frame for bytes."""
        assert self._connection is not None, "the client is not connected"
        try:
            await self._connection.send(frame)
        except ConnectionClosed as error:
            raise ConnectionLost(
                f"the server closed the connection ({error.rcvd or 'without a close frame'})"
            ) from None

    async def receive(self, request: str) -> RawFrame:
        """Receive the next frame. request: what it responds to, for errors. Raises ResponseTimeout, ConnectionLost."""
        assert self._connection is not None, "the client is not connected"
        try:
            async with asyncio.timeout(self.address.timeout_s):
                raw = await self._connection.recv()
        except TimeoutError:
            raise ResponseTimeout(f"no response to {request} within {self.address.timeout_s:g} s") from None
        except ConnectionClosed as error:
            raise ConnectionLost(
                f"the server closed the connection after {request} ({error.rcvd or 'no close frame'})"
            ) from None
        return _read(raw, request)

    async def request(self, kind: str, data: Mapping[str, Any] | None = None) -> RawFrame:
        """Send a request and return the response, which may be an error."""
        message: dict[str, Any] = {"type": kind}
        if self.is_extended:
            message["id"] = f"check-{next(self._ids)}"
        if data is not None:
            message["data"] = data
        await self.send(orjson.dumps(message).decode())
        return await self.receive(f"`{kind}`")

    async def require(self, kind: str, data: Mapping[str, Any] | None = None) -> RawFrame:
        """Send a request that must succeed. Raises RequestFailed if it fails."""
        frame = await self.request(kind, data)
        if frame.is_error:
            raise RequestFailed(f"`{kind}` was refused: {frame.message}")
        return frame


def _read(raw: str | bytes, request: str) -> RawFrame:
    try:
        message = orjson.loads(raw)
    except orjson.JSONDecodeError:
        message = None
    if not isinstance(message, dict) or not isinstance(message.get("data", {}), dict):
        raise ConnectionLost(f"the response to {request} is not a frame of the protocol: {str(raw)[:200]}")
    text = raw if isinstance(raw, str) else raw.decode(errors="replace")
    without_id = {key: value for key, value in message.items() if key != "id"}
    comparable = text if len(without_id) == len(message) else orjson.dumps(without_id).decode()
    return RawFrame(text, str(message.get("type")), message.get("data") or {}, comparable)


def _raise_if_full(frame: RawFrame) -> None:
    if frame.is_error and frame.code == "CAPACITY_REACHED":
        raise ServerFull(frame.message)
    if frame.is_error and frame.code == "FACTORY_ERROR":
        raise RequestFailed(f"the environment could not be created: {frame.message}")
