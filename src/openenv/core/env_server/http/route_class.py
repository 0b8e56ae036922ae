"""The routes of an environment in any application: each has the access control and the error responses of its own.

An application may have other routes, which keep what their author gave them.
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.http.auth import AccessControl
from openenv.core.env_server.sessions.worker_share import WrongWorker
from openenv.core.errors import InvalidMessage, RequestRefused
from openenv.core.wire.server_codec import error_data, error_json, refuse_too_big, refused_fields

_STATUS = {
    "VALIDATION_ERROR": 422,
    "EPISODE_OVER": 409,
    "SESSION_ERROR": 404,
    "CAPACITY_REACHED": 503,
    "FACTORY_ERROR": 500,
    "EXECUTION_ERROR": 500,
    "WORKER_CRASHED": 502,
    "TIMEOUT": 504,
    "NOT_SUPPORTED": 501,
    "UNKNOWN_TASK": 400,
    "MESSAGE_TOO_BIG": 413,
}


@contextmanager
def environment_routes(app: FastAPI, config: ServerConfig) -> Iterator[None]:
    """Give the routes that are added to `app` inside the `with` statement our access control and error responses.

    They keep both where another application includes the router of `app`.
    """
    router, route_class = app.router, app.router.route_class
    router.route_class = _environment_route(route_class, config)
    try:
        yield
    finally:
        router.route_class = route_class


def _environment_route(route_class: type[APIRoute], config: ServerConfig) -> type[APIRoute]:
    """A class of routes. FastAPI makes them, and makes them again for a router that is included."""

    class EnvironmentRoute(route_class):  # type: ignore[misc, valid-type]  # the application's own class
        """A route behind the access control, whose refused requests get this package's error responses."""

        def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
            super().__init__(path, endpoint, **settings)
            self._guarded = AccessControl(super().handle, config, path)

        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            """Called by the router, for any method of a request."""
            await self._guarded(scope, receive, send)

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Called by FastAPI for the function that handles a request."""
            return _with_error_responses(super().get_route_handler(), config.max_message_bytes)

    return EnvironmentRoute


def _with_error_responses(
    handle: Callable[[Request], Coroutine[Any, Any, Response]], max_bytes: int
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    async def handle_refusals(request: Request) -> Response:
        try:
            refuse_too_big(await request.body(), max_bytes)  # before it is parsed; the request keeps it
            return await handle(request)
        except ClientDisconnect:
            return Response(status_code=400)  # its client, which has left, will not read it
        except RequestValidationError as error:
            return _invalid_body(error, request.headers.get("content-type"))
        except WrongWorker:
            raise  # the worker's application forwards the request
        except RequestRefused as error:
            return refusal(error)

    return handle_refusals


def add_websocket(app: FastAPI, path: str, endpoint: ASGIApp, config: ServerConfig) -> None:
    """Add an endpoint behind the access control, and behind the application's own dependencies, such as a check of an
    API key, if it has any.

    FastAPI solves dependencies only for its own kind of route, which costs each connection time.
    """
    guarded = AccessControl(endpoint, config, path)
    if not app.router.dependencies:
        app.router.routes.append(WebSocketRoute(path, guarded))
        return

    async def solved(websocket: WebSocket) -> None:
        await guarded(websocket.scope, websocket.receive, websocket.send)

    app.add_api_websocket_route(path, solved)
    route = app.router.routes[-1]
    assert isinstance(route, WebSocketRoute)
    # before the dependencies; the guard of the endpoint is for an application that includes these routes
    route.app = AccessControl(route.app, config, path)


def refusal(error: RequestRefused) -> Response:
    """The error response of a refused request: FastAPI's `detail`, and the wire's own code and message."""
    detail = error.details.get("errors", error.message)
    retry_after = str(error.details.get("retry_after_s", 1))
    headers = {"Retry-After": retry_after} if error.code == "CAPACITY_REACHED" else None
    data = {key: value for key, value in error_data(error).items() if key != "errors"}  # the rows are in `detail`
    return json_bytes(error_json({"detail": detail, **data}), _STATUS.get(error.code, 400), headers)


def _invalid_body(error: RequestValidationError, content_type: str | None) -> Response:
    if isinstance(error.body, bytes):  # FastAPI parses JSON alone
        text = (
            f"a body of content type {content_type or 'unknown'} is not read: send JSON, with the header content-type: "
            "application/json (curl -H 'content-type: application/json')"
        )
        row = {"type": "content_type", "loc": ["header", "content-type"], "msg": text}
        return json_bytes(error_json({"detail": [row], "code": InvalidMessage.code, "message": text}), 422)
    rows = [{key: row[key] for key in ("type", "loc", "msg", "input", "ctx") if key in row} for row in error.errors()]
    refused = refused_fields(rows, len(rows))
    content = {"detail": refused.details["errors"], "code": refused.code, "message": refused.message}
    return json_bytes(error_json(content), 422)


def json_bytes(body: bytes, status_code: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A response with this JSON."""
    return Response(body, status_code=status_code, media_type="application/json", headers=headers)
