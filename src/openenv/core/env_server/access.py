"""Who may use a server: bearer token, origins of web pages, and the size of requests. Runs before everything else."""

import asyncio
import contextlib
import hmac
import ipaddress
import logging
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.exceptions import HTTPException

from openenv.core.env_server.asgi import Message, Receive, Scope, Send
from openenv.core.env_server.config import ServerConfig

log = logging.getLogger(__name__)

_OPEN_PATHS = {"/health", "/ready"}
_CLOSE_TIMEOUT_S = 1.0


class AccessControl:
    """ASGI middleware that refuses what may not pass, before any session hears of it."""

    def __init__(self, app: Any, config: ServerConfig) -> None:
        self._app = app
        self._config = config
        self._token = config.token.encode() if config.token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401, 403 or 413 with the reason."""
        if scope["type"] in ("http", "websocket"):
            headers = {key.lower(): value for key, value in scope["headers"]}
            refusal = self._refusal(scope, headers)
            if refusal is not None:
                await _refuse(scope, receive, send, *refusal)
                return
        await self._app(scope, self._counted(receive) if scope["type"] == "http" else receive, send)

    def _counted(self, receive: Receive) -> Receive:
        """`receive`, refusing a body that grows beyond the limit without having said so in its head."""
        size, limit = 0, self._config.max_message_bytes

        async def receive_counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > limit:
                raise HTTPException(413, f"a body above this server's limit of {limit} bytes")
            return message

        return receive_counted

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, str] | None:
        """Status, code and reason, or None for what may pass."""
        if self._token is not None and scope["path"] not in _OPEN_PATHS:
            given = headers.get(b"authorization", b"").removeprefix(b"Bearer ")
            if not hmac.compare_digest(given, self._token):
                return 401, "UNAUTHORIZED", "This server wants its token: Authorization: Bearer ..."
        if b"origin" in headers:
            origin, host = (headers.get(name, b"").decode("latin-1") for name in (b"origin", b"host"))
            if not self._may_come_from(origin, host):
                reason = f"Web pages of {origin[:200]} may not use this server: name them in allowed_origins"
                return 403, "FORBIDDEN_ORIGIN", reason
        size = headers.get(b"content-length", b"0")
        if scope["type"] == "http" and size.isdigit() and int(size) > self._config.max_message_bytes:
            limit = self._config.max_message_bytes
            return 413, "MESSAGE_TOO_BIG", f"a body of {int(size)} bytes is above this server's limit of {limit}"
        return None

    def _may_come_from(self, origin: str, host: str) -> bool:
        """Only browsers send an origin. The server's own pages may use it, and those that it was told of.

        A name is taken for the server's own only where a token is asked for too: without one, a page of evil.example
        could let that name point to this machine and come as its own.
        """
        allowed = self._config.allowed_origins
        if origin in allowed or "*" in allowed:
            return True
        return origin.partition("://")[2] == host and (self._token is not None or _is_address(host))


def _is_address(host: str) -> bool:
    """Whether a Host header names a machine by its address, or this one: nobody else can make that point here."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if name != "localhost":
            ipaddress.ip_address(name)
    except ValueError:  # a name, or no host at all
        return False
    return True


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, code: str, reason: str) -> None:
    log.warning("refused %s %s: %s", scope["type"], scope["path"], reason)
    kind = "http.response"
    if scope["type"] == "websocket":
        await receive()  # websocket.connect
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": reason})  # before accept: HTTP 403
            return
        kind = "websocket.http.response"
    headers = [(b"content-type", b"application/json")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    body = orjson.dumps({"detail": reason, "message": reason, "code": code})
    await send({"type": f"{kind}.body", "body": body})
    if scope["type"] == "websocket":
        await _closed(receive)


async def _closed(receive: Receive) -> None:
    """Return when the refused connection is closed: uvicorn logs an error when the application returns before."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await receive()  # the end of the handshake
            await receive()  # the end of the connection, which not every server tells
