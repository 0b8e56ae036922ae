"""The page at `/web`, on which a person plays an environment, and the routes that it uses."""

import inspect
import weakref
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson
from fastapi import Body, FastAPI, Header, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from openenv.core.env_server.http.openapi_errors import DESCRIBE_REFUSALS, END_REFUSALS, VERB_REFUSALS
from openenv.core.env_server.http.sessions import HttpSessions
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.runner.environment_calls import TOOL_ACTION_CLASSES
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.sessions.worker_share import WrongWorker
from openenv.core.env_server.types import EnvironmentMetadata, OpenAction
from openenv.core.errors import RequestRefused, SessionFault
from openenv.core.wire.constants import NEW_SESSION, SESSION_HEADER
from openenv.core.wire.server_codec import SessionRequest
from openenv.schema.message_schema import message_schema
from openenv.web.forms import fields_of, keywords_schema, takes_any_keyword
from openenv.web.pages import PRIVATE_HEADERS, Pages
from openenv.web.questions import PageQuestions
from openenv.web.ui_socket import UiSocket
from openenv.web.views import ObservationView, game_of

_Object = Annotated[dict[str, Any] | None, Body()]
_SessionId = Annotated[str | None, Header(description="The session; `new` opens one; without it the caller's own")]

_DRAWING_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'self'",
    **PRIVATE_HEADERS,
}
"""What an environment draws may have styles and images of its own, and runs nothing."""


def add_play(
    app: FastAPI, spec: EnvSpec, sessions: SessionManager, pages: Pages, tabs: Sequence[tuple[str, str]]
) -> UiSocket:
    """Add the page and its routes. Each tab of a browser has a session of its own.

    The routes answer in both modes of a server, and are those of the published package: a reset's and a step's
    responses have the observation's `view`, the `actions` that a page offers as buttons, the path of the environment's
    `drawing`, and at a reset the `tools` and the name of the `game`. tabs: name and path of further pages. Returns
    the endpoint of the published `/ws/ui`, which knows the same callers.
    """
    _add_page(app, spec, sessions, pages, tabs)
    callers = HttpSessions(sessions)
    _add_verbs(app, sessions, callers, PagePlay(spec, pages))
    return UiSocket(callers)


def _add_page(
    app: FastAPI, spec: EnvSpec, sessions: SessionManager, pages: Pages, tabs: Sequence[tuple[str, str]]
) -> None:
    described: list[EnvironmentMetadata] = []
    calls_tools = spec.action_cls in TOOL_ACTION_CLASSES

    async def metadata() -> EnvironmentMetadata:
        if not described:
            described.append(EnvironmentMetadata.model_validate_json(await sessions.describe("get_metadata", [])))
        return described[0]

    @app.get("/web/metadata", tags=["page"], responses=DESCRIBE_REFUSALS)
    async def web_metadata() -> EnvironmentMetadata:
        """Name, description and version of the environment."""
        return await metadata()

    @app.get("/web", include_in_schema=False)
    async def without_slash() -> Response:
        return RedirectResponse("web/")

    @app.get("/web/", include_in_schema=False)
    async def page() -> Response:
        problem, title, description = "", spec.name, ""
        try:
            about = await metadata()
            title, description = about.name, about.description
        except RequestRefused as error:  # the page says why nothing can be played
            problem = error.message
        reset = spec.environment_cls.reset
        return pages.response(
            "play.html",
            root="",
            title=title,
            game=game_of(getattr(spec.make, "keywords", {})),
            description=description,
            problem=problem,
            reset_fields=fields_of(keywords_schema(reset)),
            takes_any_keyword=takes_any_keyword(reset),
            reset_help=inspect.getdoc(reset) if spec.is_known else None,
            action_fields=[] if calls_tools else fields_of(message_schema(spec.action_cls)),
            takes_any_action=spec.action_cls is OpenAction,
            can_watch=sessions.config.allow_watching,
            tabs=tabs,
        )


def _add_verbs(app: FastAPI, sessions: SessionManager, callers: HttpSessions, play: "PagePlay") -> None:
    @app.post("/web/reset", tags=["page"], responses=VERB_REFUSALS)
    async def reset(request: Request, body: _Object = None, x_session_id: _SessionId = None) -> Response:
        """Start an episode; the body has the keywords of `reset`. The response names its session, which is a new one
        where the named one has ended."""
        named = NEW_SESSION if x_session_id is not None and _has_ended(sessions, x_session_id) else x_session_id
        session = await callers.for_reset(request, named)
        try:
            return await play.reset(session, {key: value for key, value in (body or {}).items() if value is not None})
        except RequestRefused:
            if named == NEW_SESSION:
                await sessions.end(session)  # no response has named it
            raise

    @app.post("/web/step", tags=["page"], responses=VERB_REFUSALS)
    async def step(request: Request, body: _Object = None, x_session_id: _SessionId = None) -> Response:
        """Take the action in `action`."""
        session = await callers.for_verb(request, x_session_id)
        return await play.step(session, (body or {}).get("action") or {})

    @app.get("/web/state", tags=["page"], responses=VERB_REFUSALS)
    async def state(request: Request, x_session_id: _SessionId = None) -> Response:
        """Identity and progress of the episode."""
        session = await callers.for_verb(request, x_session_id)
        response = await session.respond(SessionRequest("state", {}))
        return Response(response.data, media_type="application/json", headers={SESSION_HEADER: session.id})

    @app.get("/web/drawings/{session_id}", include_in_schema=False)
    async def drawing(session_id: str) -> Response:
        return HTMLResponse(play.drawing(sessions.find(session_id)), headers=_DRAWING_HEADERS)

    @app.post("/web/close", tags=["page"], status_code=204, responses=END_REFUSALS)
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


class PagePlay:
    """Resets and steps sessions, and shows their observations."""

    def __init__(self, spec: EnvSpec, pages: Pages) -> None:
        self._calls_tools = spec.action_cls in TOOL_ACTION_CLASSES
        self._questions = PageQuestions(spec)
        self._view = ObservationView(spec.reset_observation_cls, spec.observation_cls)
        self._pages = pages
        self._drawings: weakref.WeakKeyDictionary[Session, str] = weakref.WeakKeyDictionary()

    async def reset(self, session: Session, keywords: dict[str, Any]) -> Response:
        """The response to a reset. Raises RequestRefused."""
        result = orjson.loads((await session.respond(SessionRequest("reset", keywords))).data)
        tools = await self._tools(session) if self._calls_tools else []
        return await self._shown(session, result, tools=tools, game=await self._questions.game(session))

    async def step(self, session: Session, action: dict[str, Any]) -> Response:
        """The response to an action. Raises RequestRefused."""
        return await self._shown(session, orjson.loads((await session.respond(SessionRequest("step", action))).data))

    def drawing(self, session: Session) -> str:
        """The HTML that the environment has drawn of the last observation. Raises SessionFault if it drew none."""
        html = self._drawings.get(session)
        if html is None:
            raise SessionFault(f"The environment of session {session.id} has drawn nothing: reset it on the page first")
        return html

    async def _shown(self, session: Session, result: dict[str, Any], **more: Any) -> Response:
        """The response to a verb, with what the environment draws and offers."""
        observation: Mapping[str, Any] = result["observation"]
        asked = {**observation, "reward": result.get("reward"), "done": result.get("done")}
        html = await self._questions.drawing(session, asked)
        if html is None:
            self._drawings.pop(session, None)
        else:
            self._drawings[session] = html
        body = {
            **result,
            **more,
            "session_id": session.id,
            "html": html,
            "drawing": f"drawings/{session.id}" if html is not None else None,
            "view": self._view.parts(observation),
            "actions": [] if result.get("done") else await self._questions.actions(session, asked),
        }
        return Response(orjson.dumps(body), media_type="application/json", headers={SESSION_HEADER: session.id})

    async def _tools(self, session: Session) -> list[dict[str, Any]]:
        """Name, description and form of each tool."""
        tools = await self._questions.tools(session)
        return [
            {
                "name": tool["name"],
                "form": self._pages.text(
                    "tool.html",
                    number=number,
                    tool=tool,
                    fields=fields_of(tool.get("inputSchema", {}), without=frozenset()),
                ),
            }
            for number, tool in enumerate(tools)
        ]
