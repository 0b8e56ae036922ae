"""Which session the first request of a connection is for, read from its head without consuming it."""

import asyncio
import re
import socket
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qs, urlsplit

from openenv.core.wire.constants import NEW_SESSION, SESSION_HEADER

_END = b"\r\n\r\n"
_MAX_BYTES = 1 << 14
_SESSION_PATH = re.compile(r"/sessions/([^/]+)$")
_DEFAULT_SESSION_PATHS = ("/reset", "/step", "/state")


@dataclass(frozen=True)
class RequestHead:
    """The session that a request is for, as far as its head names it."""

    session_id: str | None
    """The session that the request names."""
    opens_session: bool
    """Whether the request opens a new session, or may."""
    uses_default_session: bool
    """Whether the request acts on its caller's default session."""

    @classmethod
    def parse(cls, head: bytes) -> Self:
        """Read a head, whose end may be missing. Bytes that are no HTTP request name no session."""
        lines = head.partition(_END)[0].decode("latin-1").split("\r\n")
        target = lines[0].split(" ")[1:2]
        try:
            url = urlsplit(target[0] if target else "")
        except ValueError:  # an invalid host
            url = urlsplit("")
        fields = (line.partition(":") for line in lines[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        if headers.get("upgrade", "").lower() == "websocket":
            named = parse_qs(url.query).get("session_id", [None])[0]
            return cls(named, opens_session=named is None, uses_default_session=False)
        in_path = _SESSION_PATH.search(url.path)
        named = in_path[1] if in_path else headers.get(SESSION_HEADER.lower())
        is_new = named == NEW_SESSION or (named is None and url.path.endswith("/mcp"))
        is_default = named is None and url.path.endswith(_DEFAULT_SESSION_PATHS)
        return cls(None if is_new else named, opens_session=is_new, uses_default_session=is_default)


async def peek_head(connection: socket.socket) -> bytes:
    """The head of the next request, whose bytes stay unread in the socket.

    The head is cut at 16 KiB, and where the client sends no more. Raises OSError when the connection breaks.
    """
    num_wanted = 1
    while True:
        await _readable(connection)
        head = connection.recv(_MAX_BYTES, socket.MSG_PEEK)
        if _END in head or len(head) == _MAX_BYTES or len(head) < num_wanted:
            break
        num_wanted = len(head) + 1
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, num_wanted)  # readable again only with more bytes
    if num_wanted > 1:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    return head


async def _readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
