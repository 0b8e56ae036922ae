"""Players that know nothing of the game: from what an observation names as legal, else from the action's schema."""

from collections.abc import Mapping
from random import Random
from typing import Any, Protocol

from openenv.evaluation.quality.dialogue import Answer
from openenv.evaluation.quality.schema_samples import SchemaSampler, resolved

_LEGAL = ("legal_actions", "valid_actions", "available_actions", "possible_actions")
_TYPES: Mapping[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "string": (str,)}


class Player(Protocol):
    """Chooses actions."""

    def action(self, answer: Answer) -> dict[str, Any]:
        """The action to take on what the server answered last."""
        ...


class RandomPlayer:
    """Each legal action equally often; where none are named, any action that the schema allows."""

    def __init__(self, schema: Mapping[str, Any], rng: Random) -> None:
        self._sampler = SchemaSampler(schema, rng)
        self._rng = rng
        self._schema = schema

    def action(self, answer: Answer) -> dict[str, Any]:
        """A random action."""
        legal = legal_actions(answer)
        sample = _as_object(self._sampler.sample())
        return sample if not legal else as_action(self._rng.choice(legal), sample, self._schema)


class FirstActionPlayer:
    """The same action every time: the first that is legal, or the simplest that the schema allows."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._simplest = _as_object(SchemaSampler(schema, Random(0), simplest=True).sample())

    def action(self, answer: Answer) -> dict[str, Any]:
        """The first action."""
        legal = legal_actions(answer)
        return self._simplest if not legal else as_action(legal[0], self._simplest, self._schema)


def legal_actions(answer: Answer) -> list[Any]:
    """What the observation or its metadata names as legal; empty when it names nothing."""
    for place in (answer.observation, answer.metadata):
        for name in _LEGAL:
            if isinstance(place.get(name), list):
                return list(place[name])
    return []


def as_action(legal: Any, sample: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The action that an entry of the legal ones means: itself when it is an object, else the value of the first field
    that takes it, beside what `sample` says of the other fields that must be there."""
    if isinstance(legal, dict):
        return legal
    whole = resolved(schema, schema)
    properties, required = whole.get("properties", {}), list(whole.get("required", ()))
    for name in (*required, *properties):
        kind = resolved(schema, properties.get(name)).get("type")
        if name != "metadata" and isinstance(legal, _TYPES.get(str(kind), ())):
            return {**{field: sample[field] for field in required if field in sample}, name: legal}
    return sample


def _as_object(sample: Any) -> dict[str, Any]:
    return sample if isinstance(sample, dict) else {}
