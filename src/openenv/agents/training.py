"""What a trainer learns from an agent's requests to its language model: tokens, log-probabilities and a mask."""

import math
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class TrainingTurn(BaseModel):
    """One request to the model, with the tokens as the model's server counted them."""

    model_config = ConfigDict(strict=True, extra="forbid")

    node_id: str = Field(min_length=1)
    prompt_token_ids: list[int]
    completion_token_ids: list[int]
    per_token_logps: list[float]
    """Natural logarithms, one for each token of the completion."""
    loss_mask: list[int]
    """For each token of prompt and completion: 1 to train on it, 0 for context."""
    request: dict[str, Any] = Field(default_factory=dict)
    response: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def validate_capture(self) -> Self:
        """Raises ValueError for an empty prompt, negative ids, and lengths that differ.

        Each logarithm must be finite and at most 0. The mask holds 0 and 1 only, and 0 for the prompt.
        """
        prompt, completion = len(self.prompt_token_ids), len(self.completion_token_ids)
        if prompt == 0:
            raise ValueError("prompt_token_ids is empty: give the tokens that the model read")
        if len(self.per_token_logps) != completion:
            raise ValueError(
                f"per_token_logps has {len(self.per_token_logps)} entries for {completion} completion tokens"
            )
        if len(self.loss_mask) != prompt + completion:
            raise ValueError(f"loss_mask has {len(self.loss_mask)} entries for {prompt + completion} tokens")
        if any(token < 0 for token in (*self.prompt_token_ids, *self.completion_token_ids)):
            raise ValueError("prompt_token_ids and completion_token_ids must not be negative")
        if not all(math.isfinite(value) and value <= 0 for value in self.per_token_logps):
            raise ValueError("per_token_logps must be finite and at most 0")
        if not set(self.loss_mask) <= {0, 1}:
            raise ValueError("loss_mask must hold 0 and 1 only")
        if any(self.loss_mask[:prompt]):
            raise ValueError("loss_mask must be 0 for the prompt")
        return self


class TrainingTrace(BaseModel):
    """The requests of one episode that a trainer may use. The reward comes from the session's `verify`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    schema_version: Literal[1] = 1
    turns: list[TrainingTurn]

    @model_validator(mode="after")
    def unique_calls(self) -> Self:
        """Raises ValueError for two turns with one `node_id`."""
        ids = [turn.node_id for turn in self.turns]
        if len(set(ids)) < len(ids):
            raise ValueError("two turns have the same node_id")
        return self

    @classmethod
    def from_entries(cls, entries: list[dict[str, Any]]) -> Self:
        """The trace of entries as `to_trace_entries` returns them. Raises KeyError for a missing one of their keys."""
        required = ("prompt_token_ids", "completion_token_ids", "per_token_logps", "loss_mask")
        return cls(
            turns=[
                TrainingTurn(
                    node_id=entry["metadata"]["node_id"], request=entry.get("request", {}),
                    response=entry.get("response", {}), metadata=entry["metadata"],
                    **{key: entry[key] for key in required},
                )
                for entry in entries
            ]
        )  # fmt: skip

    def to_trace_entries(self) -> list[dict[str, Any]]:
        """The turns as dictionaries, each with its `node_id` in `metadata`."""
        return [
            {**turn.model_dump(exclude={"node_id"}), "metadata": {**turn.metadata, "node_id": turn.node_id}}
            for turn in self.turns
        ]
