"""What the head of a connection's first request says of the session that it is about, read without taking it."""

import asyncio
import re
import socket
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qs, urlsplit

from openenv.core.protocol import NEW_SESSION, SESSION_HEADER

_END = b"\r\n\r\n"
_LARGEST_BYTES = 1 << 14
_SESSION_PATH = re.compile(r"/sessions/([^/]+)$")
_OWN_SESSION_PATHS = ("/reset", "/step", "/state")


@dataclass(frozen=True)
class RequestHead:
    """The first request of a connection, as far as it says which session it means."""

    session_id: str | None
    """The session that it names."""
    opens_session: bool
    """Whether it opens another, or may."""
    means_own_session: bool
    """Whether it acts on its caller's own default session."""

    @classmethod
    def parse(cls, head: bytes) -> Self:
        """Read a head, of which the end may be missing. What is no HTTP names no session."""
        lines = head.partition(_END)[0].decode("latin-1").split("\r\n")
        target = lines[0].split(" ")[1:2]
        try:
            url = urlsplit(target[0] if target else "")
        except ValueError:  # a host that is none
            url = urlsplit("")
        fields = (line.partition(":") for line in lines[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        if headers.get("upgrade", "").lower() == "websocket":
            named = parse_qs(url.query).get("session_id", [None])[0]
            return cls(named, opens_session=named is None, means_own_session=False)
        in_path = _SESSION_PATH.search(url.path)
        named = in_path[1] if in_path else headers.get(SESSION_HEADER.lower())
        is_new = named == NEW_SESSION or (named is None and url.path.endswith("/mcp"))
        is_own = named is None and url.path.endswith(_OWN_SESSION_PATHS)
        return cls(None if is_new else named, opens_session=is_new, means_own_session=is_own)


async def peeked_head(connection: socket.socket) -> bytes:
    """The head that a client sends, which stays there for whoever takes the connection over.

    It is cut at 16 KiB, and where the client says no more. Raises OSError when the connection breaks.
    """
    wanted = 1
    while True:
        await _readable(connection)
        head = connection.recv(_LARGEST_BYTES, socket.MSG_PEEK)
        if _END in head or len(head) == _LARGEST_BYTES or len(head) < wanted:
            break
        wanted = len(head) + 1
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)  # be told when there is more
    if wanted > 1:
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
