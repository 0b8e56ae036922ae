"""The page at `/web/watch`, which shows the sessions of a server that allows it, live and read only."""

import time
from collections.abc import Sequence
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from openenv.core.env_server.http.route_class import add_websocket, environment_routes
from openenv.core.env_server.runner.env_runner import EncodedResponse
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.wire.arrays import inlined, read_frame
from openenv.core.wire.server_codec import error_json
from openenv.web.pages import Pages
from openenv.web.relay import Watched, relay
from openenv.web.views import ObservationView, game_of

_LONGEST_ACTION = 2000
"""Characters of an action that a watcher receives."""


def add_watch(app: FastAPI, spec: EnvSpec, sessions: SessionManager, pages: Pages) -> None:
    """Add the page, the list of sessions, and the WebSocket that sends what happens in one of them.

    A watcher receives no session's id, with which it could play.
    """
    with environment_routes(app, sessions.config):
        _add_list(app, sessions, pages, spec.name)
    add_websocket(app, "/web/watch/live", _Live(spec, sessions), sessions.config)


def _add_list(app: FastAPI, sessions: SessionManager, pages: Pages, name: str) -> None:
    @app.get("/web/watch", include_in_schema=False)
    async def page() -> Response:
        return pages.response("watch.html", root="", title=name)

    @app.get("/web/watch/sessions", tags=["page"])
    async def listed(request: Request) -> Response:
        """The sessions that may be watched, the last active one first."""
        now = time.monotonic()
        rows = [
            {
                "watch_id": sessions.share.watch_id(session.id),
                "steps": session.num_steps,
                "age_s": round(now - session.created, 1),
                "idle_s": round(now - session.last_activity, 1),
                "is_attached": session.attachment is not None,
            }
            for session in sessions
        ]
        peers = getattr(request.app.state, "peers", None)
        rows += [] if peers is None else await peers.watchable_sessions(request)
        return Response(orjson.dumps(sorted(rows, key=lambda row: row["idle_s"])), media_type="application/json")


class _Live:
    """An ASGI application: `?session_id=WATCH_ID` names the session that a WebSocket shows."""

    def __init__(self, spec: EnvSpec, sessions: SessionManager) -> None:
        self._sessions = sessions
        self._view = ObservationView(spec.reset_observation_cls, spec.observation_cls)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what happens until the session ends or the watcher leaves."""
        websocket = WebSocket(scope, receive, send)
        await websocket.accept()
        session = self._named(websocket.query_params.get("session_id", ""))
        if session is None:
            await websocket.send_text('{"ended":true,"message":"No session has this name any more: choose another."}')
            await websocket.close()
            return

        def message_of(verbs: Sequence[Watched], num_dropped: int) -> bytes:
            return self._message(session, verbs, num_dropped)

        if await relay(websocket, session, message_of):
            await websocket.send_text('{"ended":true,"message":"The session has ended."}')
            await websocket.close()

    def _named(self, watch_id: str) -> Session | None:
        watch_id_of = self._sessions.share.watch_id
        return next((session for session in self._sessions if watch_id_of(session.id) == watch_id), None)

    def _message(self, session: Session, verbs: Sequence[Watched], num_dropped: int) -> bytes:
        """The verbs since the last message; the observation of the last of them that has one."""
        rows: list[dict[str, Any]] = []
        seen: dict[str, Any] | None = None
        for watched in verbs:
            row, observation = _row(watched)
            rows.append(row)
            seen = seen if observation is None else observation
        view = None if seen is None else self._view.parts(seen)
        game = "" if seen is None else game_of(seen, seen.get("metadata") or {})
        return error_json(
            {"verbs": rows, "steps": session.num_steps, "num_dropped": num_dropped, "view": view, "game": game}
        )


def _row(watched: Watched) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """A verb as a watcher receives it, and its observation, if it has one."""
    data = error_json(watched.data).decode()
    row: dict[str, Any] = {"verb": watched.verb, "data": data[:_LONGEST_ACTION]}
    outcome = watched.outcome
    if not isinstance(outcome, EncodedResponse):
        return {**row, "error": f"{outcome.code}: {outcome.message}"}, None
    body = read_frame(inlined(outcome.data, outcome.arrays) if outcome.arrays else outcome.data)
    observation = body.get("observation")
    return {**row, "reward": body.get("reward"), "done": outcome.done}, observation if isinstance(
        observation, dict
    ) else None
