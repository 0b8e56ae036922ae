"""Policies for any environment: they choose one of the legal actions of a frame, else sample the action's schema."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from openenv.evaluation.quality.probe.raw_client import RawFrame
from openenv.evaluation.quality.probe.schema_samples import SchemaSampler, resolved
from openenv.policies.base import Policy
from openenv.policies.baselines import RandomPolicy

_LEGAL = ("legal_actions", "valid_actions", "available_actions", "possible_actions")
_TYPES: Mapping[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "string": (str,)}


class RandomSamplePolicy(RandomPolicy):
    """Chooses each legal action with the same probability; without any, a random action that the schema allows."""

    def __init__(self, schema: Mapping[str, Any], seed: str) -> None:
        """schema: JSON Schema of the actions."""
        super().__init__(seed)
        self._sampler = SchemaSampler(schema, Random(f"{seed} samples"))
        self._schema = schema

    def legal_choices(self, observation: RawFrame) -> Sequence[dict[str, Any]]:
        """The actions that the frame names as legal, or one sample of the schema."""
        sample = _as_object(self._sampler.sample())
        legal = legal_actions(observation)
        return [as_action(action, sample, self._schema) for action in legal] or [sample]


class FirstActionPolicy(Policy):
    """Always chooses the same action: the first legal one, or the simplest that the schema allows."""

    name = "first action"

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """schema: JSON Schema of the actions."""
        self._schema = schema
        self._simplest = _as_object(SchemaSampler(schema, Random(0), simplest=True).sample())

    def select_action(self, observation: RawFrame) -> Any:
        """The first action."""
        legal = legal_actions(observation)
        return self._simplest if not legal else as_action(legal[0], self._simplest, self._schema)


def legal_actions(frame: RawFrame) -> list[Any]:
    """The legal actions that the observation or its metadata names; empty if it names none."""
    for place in (frame.observation, frame.metadata):
        for name in _LEGAL:
            if isinstance(place.get(name), list):
                return list(place[name])
    return []


def as_action(legal: Any, sample: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The action that an entry of the legal actions means.

    An object is the action itself. Any other value goes into the first field of its type; the other required fields are
    taken from `sample`.
    """
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
