"""Message classes made from JSON Schemas accept and refuse what the original classes do."""

import datetime as dt
import enum
from ipaddress import IPv4Address
from random import Random
from typing import Annotated, Literal
from uuid import UUID

import pytest
from pydantic import AnyUrl, Base64Str, BaseModel, Field, ValidationError

from openenv.auto.message_classes import message_class
from openenv.core import Action, Observation
from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation
from openenv.schema.samples import SchemaSampler
from openenv.text.derived import DerivedText


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Tree(BaseModel):
    value: int
    children: list["Tree"] = []


class Point(BaseModel):
    x: int = Field(ge=0, le=3)
    y: float | None = None


class PaintAction(Action):
    """Paints points."""

    colour: Colour
    points: list[Point] = Field(min_length=1)
    tree: Tree | None = None
    layer: Literal[1, "top"] = 1
    name: str = Field(default="ab", min_length=2, pattern="^a")
    sizes: dict[str, int] = Field(default_factory=dict)
    either: int | str = 0


RIGHT = {"colour": "red", "points": [{"x": 3}]}
MADE = message_class(PaintAction.model_json_schema(), Action)


@pytest.mark.parametrize(
    "fields",
    [
        RIGHT,
        {**RIGHT, "tree": {"value": 1, "children": [{"value": 2}]}, "layer": "top", "sizes": {"a": 1}},
        {**RIGHT, "either": "text", "metadata": {"note": 1}, "points": [{"x": 0, "y": 0.5}]},
    ],
)
def test_right_fields_make_the_same_json(fields):
    sent = MADE(**fields).model_dump(mode="json")
    assert PaintAction.model_validate(sent) == PaintAction(**fields)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"points": [{"x": 3}]}, "colour"),
        ({**RIGHT, "colour": "green"}, "colour"),
        ({**RIGHT, "points": []}, "points"),
        ({**RIGHT, "points": [{"x": 4}]}, "points.0.x"),
        ({**RIGHT, "tree": {"value": "much"}}, "tree.value"),
        ({**RIGHT, "layer": 2}, "layer"),
        ({**RIGHT, "name": "b"}, "name"),
        ({**RIGHT, "sizes": {"a": "large"}}, "sizes.a"),
        ({**RIGHT, "unknown": 1}, "unknown"),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(fields, where):
    for cls in (PaintAction, MADE):
        with pytest.raises(ValidationError) as refused:
            cls(**fields)
        assert where in {".".join(map(str, row["loc"])) for row in refused.value.errors()}


def test_names_defaults_and_descriptions_are_those_of_the_schema():
    for cls, base in ((OpenSpielAction, Action), (OpenSpielObservation, Observation)):
        made = message_class(cls.model_json_schema(), base)
        assert issubclass(made, base)
        assert made.__name__ == cls.__name__
        assert made.model_fields.keys() == cls.model_fields.keys()
        assert {name: field.description for name, field in made.model_fields.items()} == {
            name: field.description for name, field in cls.model_fields.items()
        }


def test_a_schema_that_is_no_object_is_refused():
    with pytest.raises(ValueError, match="must describe an object, not 'string'"):
        message_class({"type": "string"}, Action)


class Command(Action):
    """A command, with all that the schema of a field can have."""

    command: str = Field(
        title="The command",
        description="What to do",
        examples=["look", "go north"],
        min_length=1,
        pattern="^[a-z ]+$",
        json_schema_extra={"format": "words", "unit": "words"},
    )
    count: Annotated[int, Field(ge=1, multiple_of=2)] | None = Field(default=None, examples=[2, 4])
    names: list[Annotated[str, Field(examples=["bob"], max_length=3)]] = Field(default=[], examples=[["bob"]])
    share: float = Field(default=0.5, gt=0, lt=1, json_schema_extra={"units": "N"})


def test_a_made_class_has_the_schema_that_it_was_made_of():
    schema = Command.model_json_schema()

    assert message_class(schema, Action).model_json_schema() == schema


@pytest.mark.finding("a reply is read as people read it, and one that was cut off is counted")
def test_random_play_of_a_made_class_takes_the_examples():
    text = DerivedText(message_class(Command.model_json_schema(), Action), Observation)
    alone = {**Command.model_json_schema()}
    alone["properties"] = {"command": alone["properties"]["command"]}
    only = DerivedText(message_class(alone, Action), Observation)

    replies = {only.random_reply(Observation(), Random(seed))[0] for seed in range(20)}
    objects = [text.random_reply(Observation(), Random(seed))[1].model_dump() for seed in range(20)]

    assert replies == {"look", "go north"}
    assert {fields["command"] for fields in objects} == {"look", "go north"}


class Event(Action):
    at: dt.datetime
    day: dt.date
    time: dt.time
    lasts: dt.timedelta
    id: UUID
    source: IPv4Address
    page: AnyUrl
    data: Base64Str
    share: Annotated[float, Field(gt=0, lt=1, multiple_of=0.25)]


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_random_play_has_the_formats_and_the_steps_of_a_field():
    text = DerivedText(message_class(Event.model_json_schema(), Action), Observation)

    actions = [text.random_reply(Observation(), Random(seed))[1] for seed in range(20)]

    events = [Event.model_validate_json(action.model_dump_json()) for action in actions]
    assert {event.share for event in events} == {0.25, 0.5, 0.75}
    assert len({event.at for event in events}) == 20


def test_the_reply_of_an_action_has_its_value_as_json_has_it():
    class Send(Action):
        data: bytes

    text = DerivedText(Send, Observation)

    assert text.wording(Send(data=b"abc"), Observation()) == "abc"


def test_a_value_that_must_contain_itself_is_an_error_of_the_sampler():
    schema = {"type": "object", "required": ["inner"], "properties": {"inner": {"$ref": "#"}}}
    with pytest.raises(ValueError, match="it contains itself"):
        SchemaSampler(schema, Random(0)).sample()
