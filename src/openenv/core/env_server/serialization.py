"""Messages to and from plain dictionaries, for programs that do by hand what the server does."""

import json
from typing import Any

from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
from openenv.core.env_server.observation_json import observation_data
from openenv.core.env_server.types import Action, Observation, OpenAction

_TOOL_ACTIONS: dict[str, type[Action]] = {"list_tools": ListToolsAction, "call_tool": CallToolAction}
TAKES_TOOL_ACTIONS = frozenset({Action, OpenAction, ListToolsAction, CallToolAction})
"""Action classes of environments whose actions may list and call tools, told apart by their `type`."""


def action_class(action_data: dict[str, Any], action_cls: type[Action]) -> type[Action]:
    """The class of an action: the environment's own, or that of a tool action where it takes those."""
    kind = action_data.get("type")
    if action_cls in TAKES_TOOL_ACTIONS and isinstance(kind, str):
        return _TOOL_ACTIONS.get(kind, action_cls)
    return action_cls


def deserialize_action(action_data: dict[str, Any], action_cls: type[Action]) -> Action:
    """The action in a dictionary. Raises pydantic's ValidationError for a field that is wrong, missing or unknown."""
    return action_class(action_data, action_cls).model_validate(action_data)


def deserialize_action_with_preprocessing(action_data: dict[str, Any], action_cls: type[Action]) -> Action:
    """The same for what people type into a form: JSON text for a tool's arguments and for `tokens`, digits for
    `action_id`. Text that is neither is left for the action's own validation to name."""
    data = dict(action_data)
    for field in ("arguments", "tokens"):
        data.update(_parsed(data, field))
    if isinstance(data.get("action_id"), str) and data["action_id"].strip().lstrip("-").isdigit():
        data["action_id"] = int(data["action_id"])
    return deserialize_action(data, action_cls)


def _parsed(data: dict[str, Any], field: str) -> dict[str, Any]:
    text = data.get(field)
    if not isinstance(text, str):
        return {}
    try:
        return {field: json.loads(text)}
    except ValueError:
        return {}


def serialize_observation(observation: Observation) -> dict[str, Any]:
    """The data of an observation frame: observation, reward, done, and metadata where there is some."""
    data: dict[str, Any] = json.loads(observation_data(observation))
    return data
