"""The HTTP routes: sessions that curl can play, schemas, and documentation."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import FastAPI, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import WebSocketRoute

from openenv.core.env_server.access import AccessControl
from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.declaration import Declaration
from openenv.core.env_server.inline_limit import start_watching, stop_watching
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
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
from openenv.core.env_server.verbs import Answer
from openenv.core.env_server.websocket import WebSocketEndpoint
from openenv.core.env_server.wire import error_data, error_json
from openenv.core.errors import RequestRefused, SessionFault
from openenv.core.protocol import NEW_SESSION, SESSION_HEADER

SessionId = Annotated[
    str | None, Header(description="The session to act on; `new` opens one; left out: the caller's own default session")
]

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
    "MESSAGE_TOO_BIG": 413,
}


def environment_app(declaration: Declaration, config: ServerConfig) -> FastAPI:
    """The application of one environment: `/ws`, the HTTP verbs, `/schema`, `/metadata`, `/health` and `/docs`."""
    sessions = Sessions(declaration, config)
    app = FastAPI(
        title=f"{declaration.name}: an OpenEnv environment",
        description="Reset an episode, step it with actions, ask for its state. `/ws` plays the same over a WebSocket.",
        version="1.0.0",
        lifespan=_lifespan(sessions),
    )
    app.state.sessions = sessions
    app.state.config = config
    app.add_middleware(AccessControl, config=config)
    if config.allowed_origins:  # outside the access control: a browser's preflight carries no token
        app.add_middleware(
            CORSMiddleware, allow_origins=config.allowed_origins, allow_methods=["*"], allow_headers=["*"]
        )
    app.add_exception_handler(RequestRefused, _refusal)
    app.add_exception_handler(RequestValidationError, _wrong_body)
    _add_descriptions(app, declaration, sessions)
    if config.mode is ServerMode.SIMULATION:
        _add_verbs(app, _HttpSessions(sessions))
    app.router.routes.append(WebSocketRoute("/ws", WebSocketEndpoint(sessions)))
    return app


def _lifespan(sessions: Sessions) -> Any:
    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        reaper = asyncio.create_task(sessions.end_forgotten(), name="end forgotten sessions")
        is_watching = sessions.execution != "process" and start_watching()
        try:
            yield
        finally:
            if is_watching:
                stop_watching()
            reaper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reaper
            await sessions.end_all()

    return lifespan


class _HttpSessions:
    """Which session an HTTP request means."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._default_of: dict[str, str] = {}
        self._opening = asyncio.Lock()

    async def for_reset(self, request: Request, session_id: str | None) -> Session:
        """The named session, a new one, or the caller's default, opened at its first use."""
        if session_id == NEW_SESSION:
            return await self._sessions.open()
        if session_id is not None:
            return self._sessions.find(session_id)
        async with self._opening:
            try:
                return self.named(request, None)
            except SessionFault:
                session = await self._sessions.open()
                self._default_of[_caller(request)] = session.id
                return session

    def named(self, request: Request, session_id: str | None) -> Session:
        """The named session or the caller's default. Raises SessionFault when there is none."""
        if session_id is not None:
            return self._sessions.find(session_id)
        default = self._default_of.get(_caller(request))
        if default is None:
            raise SessionFault(f"No session yet: POST /reset opens one and returns its id ({SESSION_HEADER})")
        return self._sessions.find(default)

    async def end(self, session_id: str) -> None:
        """End the session of that id."""
        await self._sessions.end(self._sessions.find(session_id))


def _caller(request: Request) -> str:
    return request.client.host if request.client else "local"


def _add_verbs(app: FastAPI, sessions: _HttpSessions) -> None:
    @app.post("/reset", response_model=ResetResponse, tags=["episode"])
    async def reset(request: Request, body: ResetRequest | None = None, x_session_id: SessionId = None) -> Response:
        """Start a new episode; the answer names the session in its body and in X-Session-Id."""
        session = await sessions.for_reset(request, x_session_id)
        data = body.model_dump(exclude_unset=True) if body else {}
        request_id, timeout_s = data.pop("request_id", None), data.pop("timeout_s", None)
        options = {} if timeout_s is None else {"timeout_s": timeout_s}
        try:
            return _observation(session, await session.ask("reset", data, options, request_id))
        except RequestRefused:
            if x_session_id == NEW_SESSION:
                await sessions.end(session.id)  # nobody was told its name
            raise

    @app.post("/step", response_model=StepResponse, tags=["episode"])
    async def step(request: Request, body: StepRequest, x_session_id: SessionId = None) -> Response:
        """Take one action in the session's episode. A repeated request_id gets the first answer and steps once."""
        session = sessions.named(request, x_session_id)
        options = {"timeout_s": body.timeout_s, **(body.model_extra or {})}
        if body.request_id is not None:
            options["request_id"] = body.request_id
        return _observation(session, await session.ask("step", body.action, options, body.request_id))

    @app.get("/state", response_model=State, tags=["episode"])
    async def state(request: Request, x_session_id: SessionId = None) -> Response:
        """Identity and progress of the session's episode."""
        session = sessions.named(request, x_session_id)
        return _json((await session.ask("state", {})).data, {SESSION_HEADER: session.id})

    @app.delete("/sessions/{session_id}", status_code=204, tags=["episode"])
    async def end_session(session_id: str) -> Response:
        """End a session and close its environment."""
        await sessions.end(session_id)
        return Response(status_code=204)


def _add_descriptions(app: FastAPI, declaration: Declaration, sessions: Sessions) -> None:
    @app.get("/health", response_model=HealthResponse, tags=["server"])
    async def health() -> Response:
        """Whether the server answers."""
        return _json(b'{"status":"healthy"}')

    @app.get("/ready", tags=["server"])
    async def ready() -> Response:
        """Whether the server opens new sessions; 503 while it is stopping."""
        body = {"ready": not sessions.is_draining, "sessions": len(sessions), "max_sessions": sessions.max_sessions}
        return _json(orjson.dumps(body), status_code=503 if sessions.is_draining else 200)

    @app.get("/metrics", tags=["server"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Sessions, queue, answers, errors and latencies in Prometheus' text format."""
        return Response(sessions.telemetry.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/schema", response_model=SchemaResponse, tags=["server"])
    async def schema() -> dict[str, Any]:
        """JSON Schemas of the action, the observation and the state."""
        return {
            "action": declaration.action_cls.model_json_schema(),
            "observation": declaration.observation_cls.model_json_schema(),
            "state": declaration.state_cls.model_json_schema(),
        }

    described: list[EnvironmentMetadata] = []

    @app.get("/metadata", response_model=EnvironmentMetadata, tags=["server"])
    async def metadata() -> EnvironmentMetadata:
        """What the environment says about itself."""
        if not described:
            described.append(await asyncio.to_thread(_describe, declaration))
        return described[0]


def _describe(declaration: Declaration) -> EnvironmentMetadata:
    """Ask an environment that is made for the question, and closed after it."""
    env = declaration.make()
    try:
        return env.get_metadata()
    finally:
        if not declaration.is_one_instance:
            env.close()


def _observation(session: Session, answer: Answer) -> Response:
    extra = {"session_id": session.id, "validity": "truncated" if answer.truncated else "valid"}
    # Without metadata the object ends with `done`; over HTTP the published server then says null.
    metadata = b',"metadata":null' if answer.data.endswith((b'"done":true}', b'"done":false}')) else b""
    body = answer.data[:-1] + metadata + b"," + orjson.dumps(extra)[1:]
    return _json(body, {SESSION_HEADER: session.id})


def _json(body: bytes, headers: dict[str, str] | None = None, status_code: int = 200) -> Response:
    return Response(body, status_code=status_code, media_type="application/json", headers=headers)


async def _refusal(_: Request, error: Exception) -> Response:
    """A refused request as JSON: FastAPI's `detail` beside the wire's own code and message."""
    assert isinstance(error, RequestRefused)
    detail = error.details.get("errors", error.message)
    retry_after = str(error.details.get("retry_after_s", 1))
    headers = {"Retry-After": retry_after} if error.code == "CAPACITY_REACHED" else None
    body = error_json({"detail": detail, **error_data(error)})
    return _json(body, headers, _STATUS.get(error.code, 400))


async def _wrong_body(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    rows = [{key: row[key] for key in ("type", "loc", "msg", "input", "ctx") if key in row} for row in error.errors()]
    content = {"detail": rows, "code": "VALIDATION_ERROR", "message": "Invalid message"}
    return _json(error_json(content), status_code=422)
