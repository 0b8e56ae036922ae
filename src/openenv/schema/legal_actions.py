"""The legal actions that an observation names, and the actions that their entries mean."""

from collections.abc import Mapping, Sequence
from typing import Any

from openenv.schema.samples import resolved

LEGAL_FIELDS = ("legal_actions", "valid_actions", "available_actions", "possible_actions")
"""Fields of an observation, or of its metadata, that list the legal actions."""
REFUSED_REMEDY = (
    "name the legal actions in the observation (legal_actions), or bound the action's fields (Literal, ge, le, "
    "pattern, examples)"
)
"""What the author of an environment does where random play or a policy chooses actions that it refuses."""
NAME_FIELDS = ("legal_action_names", "action_names")
"""Fields beside them that list the actions' names, in the same order."""

_TYPES: Mapping[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "string": (str,)}


def legal_actions(observation: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[Any]:
    """The legal actions that an observation or its metadata names; empty if they name none."""
    return _first_list(LEGAL_FIELDS, observation, metadata)


def legal_action_names(observation: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[Any]:
    """Their names; empty if they have none."""
    return _first_list(NAME_FIELDS, observation, metadata)


def _first_list(names: Sequence[str], *places: Mapping[str, Any]) -> list[Any]:
    for place in places:
        for name in names:
            if isinstance(place.get(name), list):
                return list(place[name])
    return []


def as_action(legal: Any, sample: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The action that an entry of the legal actions means.

    An object is the action itself. Any other value goes into the first field of its type; the other required fields are
    taken from `sample`. schema: JSON Schema of the actions.
    """
    if isinstance(legal, dict):
        return legal
    whole = resolved(schema, schema)
    properties, required = whole.get("properties", {}), list(whole.get("required", ()))
    for name in (*required, *properties):
        if name != "metadata" and _takes(schema, properties.get(name), legal):
            return {**{field: sample[field] for field in required if field in sample}, name: legal}
    return sample


def _takes(root: Mapping[str, Any], schema: Any, value: Any) -> bool:
    """Whether a field is of a value's type, or one of its alternatives is."""
    field = resolved(root, schema)
    if "anyOf" in field:
        return any(_takes(root, option, value) for option in field["anyOf"])
    return isinstance(value, _TYPES.get(str(field.get("type")), ()))
