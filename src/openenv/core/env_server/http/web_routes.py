"""The page at `/web`, on which a person plays an environment, and the routes that it uses."""

import logging
import os
from pathlib import Path
from typing import Annotated, Any

import orjson
from fastapi import Body, FastAPI, Header, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from openenv.core.env_server.http.route_class import environment_routes
from openenv.core.env_server.http.sessions import HttpSessions
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.sessions.worker_share import WrongWorker
from openenv.core.env_server.types import EnvironmentMetadata
from openenv.core.errors import NotSupported, RequestRefused, SessionFault
from openenv.core.wire.constants import NEW_SESSION, SESSION_HEADER
from openenv.core.wire.server_codec import SessionRequest

log = logging.getLogger(__name__)

PAGE_VARIABLE = "ENABLE_WEB_INTERFACE"

_Object = Annotated[dict[str, Any] | None, Body()]
_SessionId = Annotated[str | None, Header(description="The session; `new` opens one; without it the caller's own")]
_PAGE = Path(__file__).with_name("web_page.html")


def page_is_enabled() -> bool:
    """Whether the environment variable ENABLE_WEB_INTERFACE turns the page on."""
    return os.environ.get(PAGE_VARIABLE, "").lower() in ("1", "true", "yes")


def add_web_page(app: FastAPI, sessions: SessionManager) -> None:
    """Add the page to an environment's application: `/` leads to it, and each tab of a browser has its own session.

    The routes answer in both modes of a server. An environment draws its observations with `render_web` and offers
    actions with `web_actions`.
    """
    with environment_routes(app, sessions.config):
        _add_page(app)
        _add_verbs(app, sessions)


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def to_page() -> Response:
        return RedirectResponse("web/")

    @app.get("/web", include_in_schema=False)
    @app.get("/web/", include_in_schema=False)
    async def page() -> Response:
        return HTMLResponse(_PAGE.read_text(encoding="utf-8"))


def _add_verbs(app: FastAPI, sessions: SessionManager) -> None:
    callers = HttpSessions(sessions)

    @app.get("/web/metadata", tags=["page"])
    async def metadata() -> EnvironmentMetadata:
        """Name, description and version of the environment."""
        return EnvironmentMetadata.model_validate_json(await sessions.describe("get_metadata", []))

    @app.post("/web/reset", tags=["page"])
    async def reset(request: Request, body: _Object = None, x_session_id: _SessionId = None) -> Response:
        """Start an episode; the body has the keywords of `reset`. The response names its session, which is a new one
        where the named one has ended."""
        named = NEW_SESSION if x_session_id is not None and _has_ended(sessions, x_session_id) else x_session_id
        session = await callers.for_reset(request, named)
        try:
            return await _observed(session, SessionRequest("reset", _without_none(body or {})))
        except RequestRefused:
            if named == NEW_SESSION:
                await sessions.end(session)  # no response has named it
            raise

    @app.post("/web/step", tags=["page"])
    async def step(request: Request, body: _Object = None, x_session_id: _SessionId = None) -> Response:
        """Take the action in `action`."""
        session = await callers.for_verb(request, x_session_id)
        return await _observed(session, SessionRequest("step", (body or {}).get("action") or {}))

    @app.get("/web/state", tags=["page"])
    async def state(request: Request, x_session_id: _SessionId = None) -> Response:
        """Identity and progress of the episode."""
        session = await callers.for_verb(request, x_session_id)
        response = await session.respond(SessionRequest("state", {}))
        return Response(response.data, media_type="application/json", headers={SESSION_HEADER: session.id})

    @app.post("/web/close", tags=["page"], status_code=204)
    async def close(x_session_id: _SessionId = None) -> Response:
        """End the named session, as the page does when its tab closes."""
        if x_session_id is not None:
            await callers.end(x_session_id)
        return Response(status_code=204)


def _has_ended(sessions: SessionManager, session_id: str) -> bool:
    """Whether no session has that id any more. Raises WrongWorker where another worker may know it."""
    try:
        sessions.find(session_id)
    except WrongWorker:
        raise
    except SessionFault:
        return True
    return False


def _without_none(keywords: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keywords.items() if value is not None}


async def _observed(session: Session, request: SessionRequest) -> Response:
    """The response to a verb, with what the environment draws and offers."""
    result = orjson.loads((await session.respond(request)).data)
    shown = {**result["observation"], "reward": result.get("reward"), "done": result.get("done")}
    body = {
        **result,
        "session_id": session.id,
        "html": await _asked(session, "render_web", shown),
        "actions": await _asked(session, "web_actions", shown) or [],
    }
    return Response(orjson.dumps(body), media_type="application/json", headers={SESSION_HEADER: session.id})


async def _asked(session: Session, question: str, observation: dict[str, Any]) -> Any:
    """What a method for the page returns; None where the environment has none, or when it raises, which must not hide
    the observation."""
    try:
        described = SessionRequest("describe", {"question": question, "arguments": [observation]})
        return orjson.loads((await session.respond(described)).data)
    except NotSupported:
        return None
    except RequestRefused as error:
        log.warning("session %s: %s failed: %s", session.id, question, error)
        return None
