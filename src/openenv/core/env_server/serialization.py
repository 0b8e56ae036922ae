"""Converts messages to and from plain dictionaries, for programs with a server of their own."""

import json
from typing import Any

from openenv.core.env_server.mcp_types import CallToolAction as CallToolAction
from openenv.core.env_server.mcp_types import ListToolsAction as ListToolsAction
from openenv.core.env_server.runner.environment_calls import deserialize_action
from openenv.core.env_server.runner.observation_json import observation_data
from openenv.core.env_server.types import Action, Observation

__all__ = ["deserialize_action", "deserialize_action_with_preprocessing", "serialize_observation"]


def deserialize_action_with_preprocessing(action_data: dict[str, Any], action_cls: type[Action]) -> Action:
    """`deserialize_action` for the text fields of a form.

    JSON text is read in `arguments` and `tokens`, digits in `action_id`. Other text is left to the action's validation.
    """
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
