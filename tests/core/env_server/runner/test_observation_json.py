"""Observations whose fields are plain are written faster than others, and the same."""

import dataclasses
import datetime
import enum
import json
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, computed_field, field_serializer, model_serializer
from pydantic_core import PydanticSerializationError

from openenv.core.env_server.runner.observation_json import observation_data
from openenv.core.env_server.types import Observation
from openenv.core.wire.arrays import JsonOrArray
from openenv.formats.images import Image


class PlainObservation(Observation):
    """Nothing that orjson could not write."""

    mixed: list[bool | int | float | str | None] | None = None
    counts: dict[str, list[int]] | None = None
    odds: list[float] | None = None
    pair: tuple[int, str] | None = None
    mood: Literal["calm", "wild"] | None = None


class JsonObservation(PlainObservation):
    """One that declares its metadata as JSON."""

    METADATA_IS_PLAIN_JSON = True


class PydanticsObservation(PlainObservation):
    """The same, but for a serializer that leaves to pydantic what it would do anyway."""

    @field_serializer("mood")
    def _same(self, mood: str | None) -> str | None:
        return mood


class Suit(enum.Enum):
    """A value in a field that takes anything."""

    HEARTS = "hearts"


class Card(BaseModel):
    """Another."""

    rank: int = 1


@dataclasses.dataclass
class Chip:
    """And another."""

    worth: float = 2.5


text = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats() | text
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab\n"é', max_size=3), inner, max_size=4),
    max_leaves=12,
)


def written_alike(**fields: Any) -> bool:
    """Whether equal observations of all three classes are written alike."""
    classes = (PlainObservation, JsonObservation, PydanticsObservation)
    plain, json_alone, pydantics = (json.loads(observation_data(cls(**fields))) for cls in classes)
    return plain == json_alone == pydantics


@given(
    mixed=st.lists(scalars, max_size=5),
    counts=st.dictionaries(text, st.lists(st.integers()), max_size=3),
    odds=st.lists(st.floats(), max_size=5),
    pair=st.tuples(st.integers(), text),
    reward=st.none() | st.floats() | st.integers() | st.booleans(),
    metadata=st.dictionaries(text, anything, max_size=3),
)
def test_every_json_value_is_written_as_pydantic_writes_it(**fields):
    assert written_alike(mood="wild", done=True, **fields)


@pytest.mark.parametrize(
    "value",
    [
        datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        datetime.timedelta(seconds=90),
        Suit.HEARTS,
        Card(),
        Chip(),
        b"bytes",
        1 << 80,
        (1, 2),
        {1: "a number as a key"},
        np.arange(3),
        np.float32(0.5),
        {"deep": [Card(), {"deeper": np.ones((1, 2))}]},
    ],
    ids=repr,
)
def test_metadata_that_json_has_no_word_for_are_written_as_pydantic_writes_them(value):
    assert written_alike(metadata={"value": value})


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("value", [datetime.date(2026, 1, 2), Card(), {1: 2}, 1 << 80, np.float32(0.5)], ids=repr)
def test_values_without_validation_are_written_as_pydantic_writes_them(value):
    written = [
        observation_data(cls(odds=[1.0]).model_copy(update={"mixed": [value]}))
        for cls in (PlainObservation, PydanticsObservation)
    ]
    assert json.loads(written[0]) == json.loads(written[1])


class Secretive(Observation):
    """Fields that pydantic writes otherwise than they are."""

    hidden: int = Field(1, exclude=True)
    renamed: int = Field(2, serialization_alias="other")
    doubled: Annotated[int, PlainSerializer(lambda value: 2 * value)] = 3
    card: Card = Card()

    @computed_field
    def total(self) -> int:
        return 6


class Forgetful(Observation):
    """One that keeps what it has worked out."""

    number: int = 2

    @cached_property
    def square(self) -> int:
        return self.number**2


class Handwritten(Observation):
    """One with a serializer of its own."""

    @model_serializer
    def _written(self) -> dict[str, Any]:
        return {"by": "hand"}


class Open(Observation):
    """One that takes any field."""

    model_config = ConfigDict(extra="allow")


def written(observation: Observation) -> Any:
    """The observation's own part of what is sent."""
    return json.loads(observation_data(observation))["observation"]


def test_fields_that_are_not_written_as_they_are_stay_pydantics():
    assert written(Secretive()) == {"metadata": {}, "renamed": 2, "doubled": 6, "card": {"rank": 1}, "total": 6}
    assert written(Handwritten()) == {"by": "hand"}
    assert written(Open(extra="x"))["extra"] == "x"


def test_what_an_author_caches_in_an_observation_is_not_sent():
    observation = Forgetful()
    assert observation.square == 4
    assert written(observation) == {"metadata": {}, "number": 2}
    del observation.__dict__["number"]
    assert "square" not in written(observation)


def test_a_value_that_cannot_be_serialized_is_named():
    with pytest.raises((TypeError, PydanticSerializationError), match="object"):
        observation_data(PlainObservation(metadata={"value": object()}))


def test_mixed_values_and_images_are_written_as_they_are(monkeypatch):
    class SeenObservation(Observation):
        value: JsonOrArray = 0
        pixels: Image | None = None

    monkeypatch.setattr("openenv.core.env_server.runner.observation_json._data_of_any", None)

    assert json.loads(observation_data(SeenObservation(value=[1.5], pixels="iVBO")))["observation"] == {
        "value": [1.5], "pixels": "iVBO", "metadata": {},
    }  # fmt: skip
