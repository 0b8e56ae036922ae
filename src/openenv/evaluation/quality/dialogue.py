"""One raw conversation with a server over `/ws`: frames out, answers in, nothing repaired on the way.

The checks want to see what a server does, so they use no client of ours, which reconnects and repeats requests.
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

from openenv.core.errors import OpenEnvError, ServerUnreachable
from openenv.core.protocol import SUBPROTOCOL

_FULL_FOR_S = 3.0
_PAUSE_S = 0.05


class NoAnswer(OpenEnvError):
    """A request was not answered in time."""


class HungUp(OpenEnvError):
    """The server closed the connection where it should have answered."""


class Refused(OpenEnvError):
    """A request that should succeed was answered with an error."""


class Full(OpenEnvError):
    """The server holds no more sessions."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One frame of the server."""

    raw: str
    kind: str
    data: dict[str, Any]
    comparable: str
    """The frame without its id; in the published dialect the very bytes that came."""

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
        """The error as a person reads it, cut to a line."""
        return f"{self.code} {str(self.data.get('message', ''))[:200]}"

    @property
    def observation(self) -> dict[str, Any]:
        """What the agent sees."""
        seen = self.data.get("observation")
        return seen if isinstance(seen, dict) else {}

    @property
    def metadata(self) -> dict[str, Any]:
        """What the environment added to the observation."""
        added = self.data.get("metadata") or self.observation.get("metadata")
        return added if isinstance(added, dict) else {}

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return bool(self.data.get("done"))


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server is, and how patiently to speak to it."""

    base_url: str
    answer_s: float
    """Seconds after which a request counts as not answered."""
    headers: Mapping[str, str]
    """Sent with every request, such as `Authorization`."""

    def socket_url(self, session_id: str | None) -> str:
        """The address of `/ws`, for a new session or the one of that id."""
        query = f"?session_id={session_id}" if session_id else ""
        return f"ws{self.base_url.removeprefix('http').rstrip('/')}/ws{query}"


class Dialogue:
    """A session on a connection of its own; `async with` opens and closes it."""

    def __init__(
        self, address: Address, *, extended: bool = False, session_id: str | None = None, waits: bool = True
    ) -> None:
        """extended: offer the dialect with ids and snapshots. session_id: attach to that session. waits: whether a
        full server is asked again for three seconds, since a closed session may take a moment to make room."""
        self.address = address
        self.is_extended = False
        self._offered = [Subprotocol(SUBPROTOCOL)] if extended else None
        self._session_id = session_id
        self._waits = waits
        self._ids = itertools.count(1)
        self._connection: ClientConnection | None = None

    async def __aenter__(self) -> Self:
        """Raises ServerUnreachable when nobody answers, Full when the server holds no more sessions."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + (_FULL_FOR_S if self._waits else 0.0)
        while True:
            try:
                await self._open()
            except Full:
                await self.close()
                if loop.time() > give_up:
                    raise
                await asyncio.sleep(_PAUSE_S)
            except BaseException:  # cancelled among others: what is half open holds a place of the server
                await self.close()
                raise
            else:
                return self

    async def _open(self) -> None:
        try:
            self._connection = await connect(
                self.address.socket_url(self._session_id),
                subprotocols=self._offered, additional_headers=dict(self.address.headers), proxy=None,
                open_timeout=self.address.answer_s, ping_interval=None, compression=None, max_size=None,
                close_timeout=1.0,
            )  # fmt: skip
        except TimeoutError:
            raise NoAnswer(f"/ws did not open within {self.address.answer_s:g} s") from None
        except (OSError, InvalidHandshake) as error:
            raise ServerUnreachable(f"/ws does not open: {error}") from error
        self.is_extended = self._connection.subprotocol == SUBPROTOCOL
        if not self.is_extended:  # there only a full server speaks first; another answers when it is asked something
            with contextlib.suppress(HungUp):  # a full one may have closed already: what it said is still to be read
                await self.send('{"type":"state"}')
        _refuse_full(await self.receive("a new session"))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Say goodbye and close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(ConnectionClosed):
                await connection.send('{"type":"close"}')
            await connection.close()

    async def goodbye_code(self) -> int | None:
        """The code with which the server closes the connection after a `close` frame. Raises NoAnswer."""
        assert self._connection is not None, "the dialogue is not open"
        await self.send('{"type":"close"}')
        try:
            async with asyncio.timeout(self.address.answer_s):
                await self._connection.wait_closed()
        except TimeoutError:
            raise NoAnswer(f"no answer to `close` within {self.address.answer_s:g} s") from None
        return self._connection.close_code

    async def send(self, frame: str | bytes) -> None:
        """Send a frame as it is; text or, for bytes, a binary one."""
        assert self._connection is not None, "the dialogue is not open"
        try:
            await self._connection.send(frame)
        except ConnectionClosed as error:
            raise HungUp(f"the server closed the connection ({error.rcvd or 'without a word'})") from None

    async def receive(self, asked: str) -> Answer:
        """The next frame. asked: what it answers, for the errors. Raises NoAnswer and HungUp."""
        assert self._connection is not None, "the dialogue is not open"
        try:
            async with asyncio.timeout(self.address.answer_s):
                raw = await self._connection.recv()
        except TimeoutError:
            raise NoAnswer(f"no answer to {asked} within {self.address.answer_s:g} s") from None
        except ConnectionClosed as error:
            raise HungUp(f"the server closed the connection after {asked} ({error.rcvd or 'no word'})") from None
        return _read(raw, asked)

    async def ask(self, kind: str, data: Mapping[str, Any] | None = None) -> Answer:
        """Send a request and return its answer, an error among them."""
        message: dict[str, Any] = {"type": kind}
        if self.is_extended:
            message["id"] = f"check-{next(self._ids)}"
        if data is not None:
            message["data"] = data
        await self.send(orjson.dumps(message).decode())
        return await self.receive(f"`{kind}`")

    async def expect(self, kind: str, data: Mapping[str, Any] | None = None) -> Answer:
        """Send a request that must succeed. Raises Refused when it does not."""
        answer = await self.ask(kind, data)
        if answer.is_error:
            raise Refused(f"`{kind}` was refused: {answer.message}")
        return answer


def _read(raw: str | bytes, asked: str) -> Answer:
    try:
        message = orjson.loads(raw)
    except orjson.JSONDecodeError:
        message = None
    if not isinstance(message, dict) or not isinstance(message.get("data", {}), dict):
        raise HungUp(f"the answer to {asked} is no frame of the wire: {str(raw)[:200]}")
    text = raw if isinstance(raw, str) else raw.decode(errors="replace")
    without_id = {key: value for key, value in message.items() if key != "id"}
    comparable = text if len(without_id) == len(message) else orjson.dumps(without_id).decode()
    return Answer(text, str(message.get("type")), message.get("data") or {}, comparable)


def _refuse_full(answer: Answer) -> None:
    if answer.is_error and answer.code == "CAPACITY_REACHED":
        raise Full(answer.message)
    if answer.is_error and answer.code == "FACTORY_ERROR":
        raise Refused(f"the environment could not be made: {answer.message}")
