"""The way of a WebSocket to the `/ws` endpoint past an application's middleware and routes, where none is an author's.

What passes through them for nothing costs more than to open a session. FastAPI's own telemetry, which is among them,
does not see these connections: the verbs of their sessions are traced where ServerConfig.trace says so.
"""

from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match

from openenv.core.env_server.access import AccessControl
from openenv.core.env_server.websocket import WebSocketEndpoint

PATH = "/ws"
_LETS_WEBSOCKETS_PASS = {AccessControl, CORSMiddleware}


class ShortWay:
    """What a server calls for the WebSockets of one application."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._end: AccessControl | None = None
        self._is_known = False

    def to(self, path: str) -> AccessControl | None:
        """The application to call for a WebSocket of that path; None: the whole of it."""
        if not self._is_known:  # looked at when the first client comes: then nothing can be added any more
            self._end, self._is_known = _end_of(self._app), True
        return self._end if path == PATH else None


def _end_of(app: Any) -> AccessControl | None:
    """The endpoint behind its access control; None where something of an author's may stand before it."""
    if type(app) is not FastAPI or not _LETS_WEBSOCKETS_PASS.issuperset(one.cls for one in app.user_middleware):
        return None
    asked = {"type": "websocket", "path": PATH, "root_path": "", "headers": []}
    found = next((route for route in app.router.routes if route.matches(asked)[0] is Match.FULL), None)
    endpoint = getattr(found, "app", None)
    return AccessControl(endpoint, app.state.config) if isinstance(endpoint, WebSocketEndpoint) else None
