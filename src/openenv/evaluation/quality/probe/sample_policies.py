"""Policies for any environment: they choose one of the legal actions of a frame, else sample the action's schema."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from openenv.evaluation.quality.probe.raw_client import RawFrame
from openenv.policies.base import Policy
from openenv.policies.baselines import RandomPolicy
from openenv.schema.legal_actions import as_action, legal_actions
from openenv.schema.samples import SchemaSampler, words_of


class RandomSamplePolicy(RandomPolicy):
    """Chooses each legal action with the same probability; without any, a random action that the schema allows.

    A text without limits is one or two words of the observation's texts, as in the random play of evaluations.
    """

    def __init__(self, schema: Mapping[str, Any], seed: str) -> None:
        """schema: JSON Schema of the actions."""
        super().__init__(seed)
        self._samples = Random(f"{seed} samples")
        self._schema = schema

    def legal_choices(self, observation: RawFrame) -> Sequence[dict[str, Any]]:
        """The actions that the frame names as legal, or one sample of the schema."""
        seen = " ".join(value for value in observation.observation.values() if isinstance(value, str))
        sample = _as_object(SchemaSampler(self._schema, self._samples, words=words_of(seen)).sample())
        legal = legal_of(observation)
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
        legal = legal_of(observation)
        return self._simplest if not legal else as_action(legal[0], self._simplest, self._schema)


def legal_of(frame: RawFrame) -> list[Any]:
    """The legal actions that a frame names; empty if it names none."""
    return legal_actions(frame.observation, frame.metadata)


def _as_object(sample: Any) -> dict[str, Any]:
    return sample if isinstance(sample, dict) else {}
