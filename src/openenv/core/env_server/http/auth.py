"""Access to a server: bearer token, origins of web pages, and size of requests.

The checks run before any session receives the request.
"""

import asyncio
import contextlib
import hmac
import ipaddress
import logging
from urllib.parse import urlsplit

import orjson
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.http.page_cookie import LOGIN_PATH, PageCookie
from openenv.core.utils import is_loopback

log = logging.getLogger(__name__)

_OPEN_PATHS = {"/health", "/ready", LOGIN_PATH}
_MAX_OPEN_BYTES = 1 << 13
"""The largest body of a request that needs no token: of the login, which has the token in it."""
_ASSETS = "/web/assets/"
"""Style and scripts of the pages, which hold nothing of any environment."""
_PAGES = {"/", "/docs", "/redoc", "/web", "/web/", "/web/watch", LOGIN_PATH}
"""Pages that a link on another site may open: opening them opens no session."""
_CLOSE_TIMEOUT_S = 1.0
_CHECKED = "openenv.checked"
"""In the scope of a request that was checked: the configuration that it was checked by."""


class AccessControl:
    """ASGI middleware that refuses requests without the token, of foreign web pages, or too large.

    It also sends the headers that let pages of `allowed_origins` read responses. A request passes once, although a
    whole application and its routes may be behind access controls of one configuration.
    """

    def __init__(self, app: ASGIApp, config: ServerConfig, path: str | None = None) -> None:
        """path: of the one route behind it, without the prefix of an application around it; None: the request's."""
        self._app = app
        self._config = config
        self._path = path
        self._token = config.token.encode() if config.token else None
        self._cookie = PageCookie(config.token) if config.token else None
        self._checked: ASGIApp = self._check
        if config.allowed_origins:  # outside the check: a browser's preflight has no token
            self._checked = CORSMiddleware(
                self._check, allow_origins=config.allowed_origins, allow_methods=["*"], allow_headers=["*"]
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, or respond with 401, 403 or 413 and the reason."""
        if scope.get(_CHECKED) is self._config:
            await self._app(scope, receive, send)
            return
        scope[_CHECKED] = self._config
        await self._checked(scope, receive, send)

    async def _check(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = {key.lower(): value for key, value in scope["headers"]}
            refusal = self._refusal(scope, headers)
            if refusal is not None:
                path = self._own_path(scope)
                if refusal[0] == 401 and path in _PAGES and path.startswith("/web") and scope.get("method") == "GET":
                    login = "web/login" if path == "/web" else "login"
                    await RedirectResponse(login, status_code=303)(scope, receive, send)
                    return
                await _refuse(scope, receive, send, *refusal)
                return
        await self._app(
            scope, self._counted(receive, self._max_bytes(scope)) if scope["type"] == "http" else receive, send
        )

    def _is_open(self, scope: Scope) -> bool:
        """Whether a request needs no token."""
        path = self._own_path(scope)
        return path in _OPEN_PATHS or path.startswith(_ASSETS)

    def _max_bytes(self, scope: Scope) -> int:
        """The largest body of a request."""
        limit = self._config.max_message_bytes
        return min(limit, _MAX_OPEN_BYTES) if self._is_open(scope) else limit

    def _counted(self, receive: Receive, limit: int) -> Receive:
        """`receive`, which raises HTTPException 413 when a body without a length grows beyond the limit."""
        size = 0

        async def receive_counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > limit:
                raise HTTPException(413, f"a body above this server's limit of {limit} bytes")
            return message

        return receive_counted

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, str] | None:
        """Status, code and reason of a refusal, or None."""
        path = self._own_path(scope)
        is_open = self._is_open(scope)
        if self._token is not None and not is_open and not self._has_token(scope, headers):
            return 401, "UNAUTHORIZED", "This server wants its token: Authorization: Bearer ..."
        origin, host = (headers.get(name, b"").decode("latin-1") for name in (b"origin", b"host"))
        if b"origin" in headers and not self._is_allowed(origin, host):
            reason = f"Web pages of {origin[:200]!r} may not use this server: name them in allowed_origins"
            return 403, "FORBIDDEN_ORIGIN", reason
        if self._token is None and not is_open and _came_over_loopback(scope):
            if not self._is_own_host(host):
                reason = f"Host {host[:200]!r} is no name of this server: name it in allowed_hosts, or set a token"
                return 403, "FORBIDDEN_HOST", reason
            is_foreign = headers.get(b"sec-fetch-site") == b"cross-site" and b"origin" not in headers
            is_link = path in _PAGES and _is_navigation(scope, headers)
            if is_foreign and not is_link and "*" not in self._config.allowed_origins:
                reason = "Pages of other sites may not use this server: name them in allowed_origins"
                return 403, "FORBIDDEN_ORIGIN", reason
        size = headers.get(b"content-length", b"0")
        limit = self._max_bytes(scope)
        if scope["type"] == "http" and size.isdigit() and int(size) > limit:
            return 413, "MESSAGE_TOO_BIG", f"a body of {int(size)} bytes is above this server's limit of {limit}"
        return None

    def _own_path(self, scope: Scope) -> str:
        return self._path or str(scope["path"]).removeprefix(scope.get("root_path", ""))

    def _has_token(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        """Whether a request has the token, or the cookie of a page that was given it.

        A browser sends a cookie unasked. What changes something must come from a page that the browser names, which
        the check of origins then allows or not.
        """
        assert self._token is not None
        assert self._cookie is not None
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(b" "), self._token):
            return True
        is_read = scope["type"] == "http" and scope.get("method") in ("GET", "HEAD")
        return (is_read or b"origin" in headers) and self._cookie.is_in(headers.get(b"cookie", b"").decode("latin-1"))

    def _is_allowed(self, origin: str, host: str) -> bool:
        """Whether the page of an origin may use the server: one of `allowed_origins`, or one of the server's own.

        Without a token only an address counts as the server's own, and a name of `allowed_hosts`. Otherwise a page of
        evil.example could let that name resolve to this machine (DNS rebinding) and pass as one of the server's pages.
        """
        allowed = self._config.allowed_origins
        if origin in allowed or "*" in allowed:
            return True
        is_own = self._token is not None or _is_address(host) or _hostname(host) in self._config.allowed_hosts
        return origin.partition("://")[2] == host and is_own

    def _is_own_host(self, host: str) -> bool:
        """Whether a Host header names this server: an address, a name that no public DNS record can have, or one of
        `allowed_hosts`."""
        allowed = self._config.allowed_hosts
        name = _hostname(host)
        return "." not in name or name.endswith(".localhost") or name in allowed or "*" in allowed or _is_address(host)


def _is_navigation(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """Whether a browser asks for a page of its own, such as by a link, and not for a frame or a script of a page."""
    is_document = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    return is_document and scope.get("method") == "GET"


def _came_over_loopback(scope: Scope) -> bool:
    """Whether the connection came to a loopback address: from this machine, where a browser may run."""
    server = scope.get("server")
    return server is not None and server[0] is not None and is_loopback(server[0].removeprefix("::ffff:"))


def _hostname(host: str) -> str:
    """The name or address in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # an invalid host
        return host


def _is_address(host: str) -> bool:
    """Whether a Host header is `localhost` or an address, which no DNS record can point to this machine."""
    name = _hostname(host)
    try:
        if name != "localhost":
            ipaddress.ip_address(name)
    except ValueError:  # a name, or an invalid host
        return False
    return True


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, code: str, reason: str) -> None:
    log.warning("refused %s %r: %s", scope["type"], scope["path"], reason)
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
    """Wait until the refused connection is closed: uvicorn logs an error when the application returns earlier."""
    with contextlib.suppress(TimeoutError, RuntimeError):  # Starlette raises the latter after the end
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await receive()  # the end of the handshake
            await receive()  # the end of the connection, which not every server reports
