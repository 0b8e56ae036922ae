"""What a reply may be, so that a generator draws legal replies only: one of a few texts, or JSON of a schema."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from openenv.formats.json_text import json_text


@dataclass(frozen=True, slots=True)
class ReplyConstraint:
    """The replies that name an action: `choices`, or JSON that meets `schema`. Exactly one of them is given."""

    choices: tuple[str, ...] = ()
    """All replies, each without white space around it."""
    schema: str = ""
    """A JSON Schema, as text."""

    def __post_init__(self) -> None:
        if bool(self.choices) == bool(self.schema):
            raise ValueError(f"choices={self.choices!r}, schema={self.schema!r}: give one of them.")

    @classmethod
    def one_of(cls, replies: Iterable[str]) -> Self | None:
        """The constraint to some replies; None if there are none."""
        choices = tuple(replies)
        return cls(choices=choices) if choices else None

    @classmethod
    def json_of(cls, schema: Mapping[str, Any]) -> Self:
        """The constraint to JSON that meets a schema."""
        return cls(schema=json_text(schema))
