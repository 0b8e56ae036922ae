"""What a page asks a session besides its verbs: a drawing of the observation, actions, tools, and the game's name."""

import logging
from collections.abc import Mapping
from typing import Any

import orjson
from pydantic.errors import PydanticInvalidForJsonSchema

from openenv.core.env_server.mcp_types import McpMethod
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.runner.environment_calls import TOOL_ACTION_CLASSES
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.types import OpenAction
from openenv.core.errors import NotSupported, RequestRefused
from openenv.core.wire.server_codec import SessionRequest
from openenv.text.derived import DerivedText
from openenv.text.description import value_text
from openenv.web.views import game_of

log = logging.getLogger(__name__)

_MOST_BUTTONS = 400
"""Actions that a page offers as buttons; of more it has the form only. Go has 362."""

Offered = tuple[str, Mapping[str, Any]]
"""The name of an action, and its fields."""


def _text_of(spec: EnvSpec) -> DerivedText | None:
    """The text interface that knows the legal actions; None where actions are tool calls, or have no schema."""
    if spec.action_cls in TOOL_ACTION_CLASSES | {OpenAction}:
        return None
    try:
        return DerivedText(spec.action_cls, spec.observation_cls)
    except PydanticInvalidForJsonSchema:
        return None


class PageQuestions:
    """Asks the environments of one server. A question that fails is logged: it must not hide the observation."""

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec
        self._text = _text_of(spec)

    async def drawing(self, session: Session, observation: dict[str, Any]) -> str | None:
        """The HTML of the environment's `render_web`; None where it draws nothing."""
        html = await self._asked(session, "render_web", observation)
        return html if isinstance(html, str) and html else None

    async def actions(self, session: Session, observation: dict[str, Any]) -> list[Offered]:
        """The actions of the environment's `web_actions`; without those the legal ones that the observation lists, or
        all where they can be counted."""
        offered = await self._asked(session, "web_actions", observation)
        if offered:
            return [(str(label), fields) for label, fields in offered]
        if self._text is None:
            return []
        seen = self._spec.observation_cls.model_construct(**{"metadata": {}, **observation})
        replies = self._text.replies(seen)
        if len(replies) > _MOST_BUTTONS:
            return []
        actions = {reply: action.model_dump(mode="json", exclude_unset=True) for reply, action in replies.items()}
        return [(value_text(fields) if reply.startswith("{") else reply, fields) for reply, fields in actions.items()]

    async def game(self, session: Session) -> str:
        """What the session plays, as its state names it; an empty text where it does not."""
        try:
            state = orjson.loads((await session.respond(SessionRequest("state", {}))).data)
        except RequestRefused as error:
            log.warning("session %s: its state failed: %s", session.id, error)
            return ""
        return game_of(state) if isinstance(state, dict) else ""

    async def tools(self, session: Session) -> list[dict[str, Any]]:
        """The tools of the environment, as MCP describes them; none where it has none."""
        try:
            listed = await session.respond(SessionRequest("mcp", {"method": McpMethod.TOOLS_LIST}))
        except NotSupported:
            return []
        tools: list[dict[str, Any]] = orjson.loads(listed.data)["tools"]
        return tools

    async def _asked(self, session: Session, question: str, observation: dict[str, Any]) -> Any:
        try:
            described = SessionRequest("describe", {"question": question, "arguments": [observation]})
            return orjson.loads((await session.respond(described)).data)
        except NotSupported:
            return None
        except RequestRefused as error:
            log.warning("session %s: %s failed: %s", session.id, question, error)
            return None
