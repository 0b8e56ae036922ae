"""The routes of an environment: episodes over plain HTTP, schemas, health, metrics, and every other endpoint."""

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import FastAPI, Header, Request, Response
from fastapi.responses import PlainTextResponse
from fastapi.routing import APIRoute
from fastapi_offline import FastAPIOffline
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.http.any_uvicorn import add_own_connections
from openenv.core.env_server.http.auth import AccessControl
from openenv.core.env_server.http.mcp_routes import add_mcp
from openenv.core.env_server.http.openapi_errors import DESCRIBE_REFUSALS, END_REFUSALS, VERB_REFUSALS
from openenv.core.env_server.http.route_class import add_websocket, environment_routes, json_bytes
from openenv.core.env_server.http.sessions import HttpSessions
from openenv.core.env_server.http.task_routes import task_routes
from openenv.core.env_server.runner.env_runner import EncodedResponse
from openenv.core.env_server.runner.env_spec import TITLE_END, EnvSpec
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.types import (
    EnvironmentMetadata,
    HealthResponse,
    ResetRequest,
    ResetResponse,
    SchemaResponse,
    ServerMode,
    State,
    StepRequest,
    StepResponse,
)
from openenv.core.env_server.websocket.endpoint import WebSocketEndpoint
from openenv.core.errors import RequestRefused
from openenv.core.wire.arrays import inlined
from openenv.core.wire.constants import NEW_SESSION, SESSION_HEADER
from openenv.core.wire.server_codec import MAX_KEPT_LENGTH, SessionRequest, error_json
from openenv.schema.message_schema import message_schema


class HttpResetRequest(ResetRequest):
    """Body of `POST /reset`, which also has what a WebSocket message has beside its data."""

    timeout_s: float | None = Field(default=None, gt=0, strict=True, description="Seconds the reset may take")
    request_id: str | None = Field(default=None, max_length=255)


SessionId = Annotated[
    str | None, Header(description="The session to act on; `new` opens one; without it: the caller's default session")
]


def environment_app(spec: EnvSpec, config: ServerConfig) -> FastAPI:
    """The application of one environment: `/ws`, the HTTP verbs, `/mcp`, tasks, descriptions, and `/docs`."""
    app: FastAPI = FastAPIOffline(
        title=f"{spec.name}{TITLE_END}",
        description="Reset an episode, step it with actions, ask for its state. `/ws` plays the same over a WebSocket.",
        version="1.0.0",
    )
    app.add_middleware(AccessControl, config=config)  # also around `/docs`, and routes that its author adds
    add_environment(app, spec, config)
    return app


def add_environment(app: FastAPI, spec: EnvSpec, config: ServerConfig) -> SessionManager:
    """Add an environment to an application, beside its other routes. Returns the session manager.

    Raises ValueError for an application that has one already.
    """
    if getattr(app.state, "sessions", None) is not None:
        raise ValueError(
            f"{spec.name}: this application serves an environment already, whose routes have the same paths. Mount "
            f"this one below a path of its own: app.mount('/{spec.name.lower()}', create_app(...))"
        )
    spec.mode = config.mode
    sessions = SessionManager(spec, config)
    app.router.lifespan_context = _lifespan(sessions, app.router.lifespan_context)
    app.state.sessions = sessions
    app.state.config = config
    with environment_routes(app, config):
        _add_descriptions(app, spec, sessions)
        http_sessions = HttpSessions(sessions)
        if config.mode is ServerMode.SIMULATION:
            _add_verbs(app, http_sessions)
        add_mcp(app, sessions, http_sessions)
        add_websocket(app, "/ws", WebSocketEndpoint(sessions), config)
        for route in task_routes(sessions, spec.name).routes:
            assert isinstance(route, APIRoute)
            # one by one: programs list the routes of an application, and its dependencies guard each
            app.add_api_route(
                route.path, route.endpoint, methods=sorted(route.methods or ()), response_model=route.response_model,
                responses=route.responses, tags=route.tags,
            )  # fmt: skip
    add_own_connections(app, config)
    return sessions


def _lifespan(sessions: SessionManager, around: Any) -> Any:
    """A lifespan inside `around`, the application's own, which starts before and ends after it."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with around(app) as state:
            sessions.is_draining = False  # a test client may start an application again
            sessions.start()
            try:
                yield state
            finally:
                await sessions.end_all()

    return lifespan


def _add_verbs(app: FastAPI, sessions: HttpSessions) -> None:
    @app.post("/reset", response_model=ResetResponse, tags=["episode"], responses=VERB_REFUSALS)
    async def reset(request: Request, body: HttpResetRequest | None = None, x_session_id: SessionId = None) -> Response:
        """Start a new episode; the response has the session id in its body and in X-Session-Id."""
        session = await sessions.for_reset(request, x_session_id)
        data = body.model_dump(exclude_unset=True) if body else {}
        request_id, timeout_s = data.pop("request_id", None), data.pop("timeout_s", None)
        try:
            reset_request = SessionRequest(
                "reset", data, request_id, timeout_s, _traceparent(request), body=_frame_of(data, request_id)
            )
            return _observation(session, await session.respond(reset_request))
        except RequestRefused:
            if x_session_id == NEW_SESSION:
                await sessions.end(session.id)  # no response has named it
            raise

    @app.post("/step", response_model=StepResponse, tags=["episode"], responses=VERB_REFUSALS)
    async def step(request: Request, body: StepRequest, x_session_id: SessionId = None) -> Response:
        """Take one action in the session's episode. A repeated request_id gets the recorded response and steps once."""
        session = await sessions.for_verb(request, x_session_id)
        keywords = {**(body.model_extra or {})}
        if body.request_id is not None:
            keywords["request_id"] = body.request_id
        traceparent = _traceparent(request)
        frame = _frame_of(body.action, body.request_id)
        step_request = SessionRequest(
            "step", body.action, body.request_id, body.timeout_s, traceparent, keywords, frame
        )
        return _observation(session, await session.respond(step_request))

    @app.get("/state", response_model=State, tags=["episode"], responses=VERB_REFUSALS)
    async def state(request: Request, x_session_id: SessionId = None) -> Response:
        """Identity and progress of the session's episode."""
        session = await sessions.for_verb(request, x_session_id)
        response = await session.respond(SessionRequest("state", {}, traceparent=_traceparent(request)))
        return json_bytes(response.data, headers={SESSION_HEADER: session.id})

    @app.delete("/sessions/{session_id}", status_code=204, tags=["episode"], responses=END_REFUSALS)
    async def end_session(session_id: str) -> Response:
        """End a session and close its environment."""
        await sessions.end(session_id)
        return Response(status_code=204)


def _frame_of(data: dict[str, Any], request_id: str | None) -> bytes | None:
    """The frame that would ask the same over a WebSocket, for a request that may be repeated there; None: too large."""
    if request_id is None:
        return None
    frame = error_json({"data": data})
    return frame if len(frame) <= MAX_KEPT_LENGTH else None


def _traceparent(request: Request) -> str | None:
    return request.headers.get("traceparent")


def _add_descriptions(app: FastAPI, spec: EnvSpec, sessions: SessionManager) -> None:
    @app.get("/health", response_model=HealthResponse, tags=["server"])
    async def health() -> Response:
        """Whether the server is alive."""
        return json_bytes(b'{"status":"healthy"}')

    @app.get("/ready", tags=["server"], responses={503: {"description": "The server is stopping"}})
    async def ready(request: Request) -> Response:
        """Whether the server opens new sessions; 503 while it is stopping."""
        peers = _peers(request)
        num_sessions = sessions.capacity.num_acquired + (0 if peers is None else await peers.num_sessions(request))
        body = {"ready": not sessions.is_draining, "sessions": num_sessions, "max_sessions": sessions.max_sessions}
        return json_bytes(orjson.dumps(body), status_code=503 if sessions.is_draining else 200)

    @app.get("/metrics", tags=["server"], response_class=PlainTextResponse)
    async def metrics(request: Request) -> Response:
        """Sessions, queue, responses, errors and latencies in Prometheus' text format."""
        text, peers = sessions.metrics.text(), _peers(request)
        return Response(text if peers is None else await peers.metrics(request, text), media_type=CONTENT_TYPE_LATEST)

    @app.get("/schema", response_model=SchemaResponse, tags=["server"])
    async def schema() -> dict[str, Any]:
        """JSON Schemas of the action, the observation and the state."""
        return {
            "action": message_schema(spec.action_cls),
            "observation": _schema_of_response(spec.observation_cls),
            "reset_observation": _schema_of_response(spec.reset_observation_cls),
            "state": _schema_of_response(spec.state_cls),
        }

    described: list[EnvironmentMetadata] = []

    @app.get("/metadata", response_model=EnvironmentMetadata, tags=["server"], responses=DESCRIBE_REFUSALS)
    async def metadata() -> EnvironmentMetadata:
        """Name, description and version of the environment."""
        if not described:
            metadata_json = await sessions.describe("get_metadata", [])
            described.append(EnvironmentMetadata.model_validate_json(metadata_json))
        return described[0]


def _schema_of_response(message_cls: type[BaseModel]) -> dict[str, Any]:
    """The schema of what a message becomes on the wire: its fields by their own names, and those that are computed."""
    return message_schema(message_cls, mode="serialization", by_alias=False)


def _peers(request: Request) -> Any:
    """In a worker: the other workers of its server. An application that includes these routes has none."""
    return getattr(request.app.state, "peers", None)


def _observation(session: Session, response: EncodedResponse) -> Response:
    extra = {"session_id": session.id, "validity": "truncated" if response.truncated else "valid"}
    # Without metadata the object ends with `done`; the published server then has `null` over HTTP.
    data = inlined(response.data, response.arrays) if response.arrays else response.data
    metadata = b',"metadata":null' if data.endswith((b'"done":true}', b'"done":false}')) else b""
    body = data[:-1] + metadata + b"," + orjson.dumps(extra)[1:]
    return json_bytes(body, headers={SESSION_HEADER: session.id})
