"""What the server learns from an environment's declaration."""

import logging
import sys
import types
import typing
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Json,
    PlainSerializer,
    SecretStr,
    create_model,
    field_serializer,
    model_serializer,
    model_validator,
)

from openenv.core import Action, Environment, Observation, State
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.runner.env_spec import resolve_env_spec
from openenv.core.env_server.types import OpenAction
from openenv.core.wire.arrays import Array
from openenv.core.wire.boxes import Box
from tests.core.counting_env import CountAction, CountingEnvironment, CountObservation, CountState


def test_message_classes_come_from_the_type_parameters():
    found = resolve_env_spec(CountingEnvironment)
    assert (found.action_cls, found.observation_cls, found.state_cls) == (CountAction, CountObservation, CountState)
    assert not found.is_one_instance


def test_message_classes_come_from_annotations_where_there_are_no_type_parameters():
    class Annotated(Environment):
        def reset(self) -> CountObservation: ...
        def step(self, action: CountAction) -> CountObservation: ...
        @property
        def state(self) -> CountState: ...

    found = resolve_env_spec(Annotated)
    assert (found.action_cls, found.observation_cls, found.state_cls) == (CountAction, CountObservation, CountState)


def test_a_factory_with_a_return_annotation_is_not_called():
    def make() -> CountingEnvironment:
        raise AssertionError("called too early")

    assert resolve_env_spec(make).environment_cls is CountingEnvironment


def test_one_ready_instance_serves_one_session():
    env = CountingEnvironment()
    found = resolve_env_spec(env)
    assert found.make() is env
    assert found.limited(8, None) == 1


def test_an_undeclared_action_class_takes_any_field_and_logs_a_warning(caplog):
    class Undeclared(Environment):
        def reset(self) -> Observation: ...
        def step(self, action: Action) -> Observation: ...
        @property
        def state(self) -> State: ...

    Undeclared.__module__ = (
        "openenv.core.env_server.interfaces"  # a module that knows no message classes of an environment
    )
    with caplog.at_level(logging.WARNING):
        assert resolve_env_spec(Undeclared).action_cls is OpenAction
    assert "declares no action class" in caplog.text


def test_an_environment_of_tools_needs_no_action_class(caplog):
    class Tools(MCPEnvironment):
        def __init__(self): ...
        def reset(self) -> Observation: ...
        @property
        def state(self) -> State: ...

    Tools.__module__ = "openenv.core.env_server.interfaces"
    with caplog.at_level(logging.WARNING):
        assert resolve_env_spec(Tools).action_cls is OpenAction

    assert caplog.text == ""
    with pytest.raises(RuntimeError, match=r"Tools has no tools: call super\(\).__init__\(server\)"):
        Tools().step(OpenAction())


ONE_ENVIRONMENT = """
from openenv import Action, Environment, Observation, State

class Command(Action):
    text: str

class Room(Observation):
    text: str = ""

class Dungeon(Environment):
    def reset(self, **keywords): ...
    def step(self, action, **keywords): ...
    @property
    def state(self): ...
"""
ANOTHER = """
class Clock(Environment):
    def reset(self, **keywords) -> Observation: ...
    def step(self, action: Action, **keywords) -> Observation: ...
    @property
    def state(self) -> State: ...
"""


@pytest.mark.parametrize(("source", "found"), [(ONE_ENVIRONMENT, "Room"), (ONE_ENVIRONMENT + ANOTHER, "Observation")])
@pytest.mark.finding("each environment of a file has its own messages")
def test_the_one_message_class_of_a_module_is_that_of_its_one_environment(monkeypatch, source, found):
    module = types.ModuleType("authors_module")
    monkeypatch.setitem(sys.modules, "authors_module", module)
    exec(source, module.__dict__)

    for environment in (value for name, value in vars(module).items() if name in ("Dungeon", "Clock")):
        assert resolve_env_spec(environment).observation_cls.__name__ == found


@pytest.mark.parametrize("declared", [np.ndarray, npt.NDArray[np.float32], np.ndarray | None, list[np.ndarray]])
@pytest.mark.finding("arrays work from the first line, or their author learns which type to write")
def test_a_field_of_numpys_array_type_is_refused_with_the_type_to_write(declared):
    seen = create_model("Seen", __base__=Observation, x=(declared, ...))

    with pytest.raises(TypeError, match=r"Seen\.x is declared as a numpy array.*: declare it as Array \(from openenv"):
        resolve_env_spec(CountingEnvironment, observation_cls=seen)
    resolve_env_spec(CountingEnvironment, observation_cls=create_model("Seen", __base__=Observation, x=(Array, ...)))


class ArmOfNumpy(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    angles: np.ndarray


class Handle:
    """A type that pydantic does not know."""


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (list[ArmOfNumpy], r"ArmOfNumpy\.angles is declared as a numpy array"),
        (Annotated[Array, Field(ge=-1, le=1)], r"Move\.x is an Array with Ge\(ge=-1\).*Annotated\[Array, Box\("),
        (np.float32, r"Move\.x is declared as numpy's float32, .* write float, int or bool"),
        (list[np.int64], r"Move\.x is declared as numpy's int64"),
    ],
)
def test_a_field_of_a_type_of_numpy_is_refused_with_its_name_and_the_remedy(declared, problem):
    move = create_model("Move", __base__=Action, x=(declared, ...))

    with pytest.raises(TypeError, match=problem):
        resolve_env_spec(CountingEnvironment, move)


class Colour(Enum):
    RED = "red"


class Flag(str, Enum):  # noqa: UP042  # as authors write it
    WHITE = "white"


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (BaseModel, r"Seen\.x is declared as BaseModel, .*a model of your own, or dict\[str, Any\]"),
        (list[BaseModel] | None, r"Seen\.x is declared as BaseModel"),
        (Literal[Colour.RED, "blue"], r"Seen\.x is declared as Literal\[Colour\.RED\], .*class Colour\(str, Enum\)"),
        (list[Json[int]], r"Seen\.x is declared as Json, .* declare the type inside"),
        (Json[int], r"Seen\.x is declared as Json"),
        (dict[tuple[int, int], str], r"Seen\.x is declared with keys of tuple, .* list\[tuple\[KEY, VALUE\]\]"),
        (list[Mapping[frozenset[int], str]], r"Seen\.x is declared with keys of frozenset"),
        (Annotated[int, Field(exclude=True)], r"Seen\.x is left out of what is written \(exclude=True\)"),
        (SecretStr | None, r"Seen\.x is declared as SecretStr, which is written as asterisks: declare str"),
    ],
)
@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_a_field_whose_values_json_changes_is_refused_with_its_name_and_the_remedy(declared, problem):
    with pytest.raises(TypeError, match=problem):
        resolve_env_spec(
            CountingEnvironment, observation_cls=create_model("Seen", __base__=Observation, x=(declared, ...))
        )


@pytest.mark.parametrize("declared", [Json[list[int]], Literal[Flag.WHITE, 1], dict[Colour, int], dict[int, Any]])
def test_a_field_whose_values_json_keeps_is_taken(declared):
    resolve_env_spec(CountingEnvironment, create_model("Move", __base__=Action, x=(declared, ...)))


@pytest.mark.parametrize(
    "declared",
    [
        Iterable[int],
        typing.Iterable[int],
        list[Iterable[int]],
        Iterable,
        Iterator[int],
        Generator[int, None, None] | None,
    ],
)
@pytest.mark.parametrize(("role", "base"), [("action_cls", Action), ("observation_cls", Observation)])
@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_a_field_that_can_be_read_once_is_refused_with_the_type_to_write(declared, role, base):
    message = create_model("Message", __base__=base, x=(declared, ...))

    with pytest.raises(TypeError, match=r"Message\.x is declared as an Iterable, .*: declare list\[\.\.\.\]"):
        resolve_env_spec(CountingEnvironment, **{role: message})
    resolve_env_spec(CountingEnvironment, **{role: create_model("Message", __base__=base, x=(Sequence[int], ...))})


class Price(BaseModel):
    """Written as a text that it does not read."""

    euros: int = 4

    @model_serializer
    def written(self):
        return f"{self.euros} euros"


class ReadPrice(Price):
    """Reads it."""

    @model_validator(mode="before")
    @classmethod
    def read(cls, value):
        return {"euros": int(value.split()[0])} if isinstance(value, str) else value


class Marked(BaseModel):
    x: int = 3

    @field_serializer("x")
    def written(self, value):
        return f"{value}!"


class Extended(Action):
    x: int = 3

    @model_serializer(mode="wrap")
    def written(self, write):
        return {**write(self), "double": 2 * self.x}


WITH_SERIALIZERS = {
    "a model": (
        Price,
        r"Message\.x: a serializer writes '[0-9]+ euros', which the class does not read: .*mode='before'",
    ),
    "a model that reads it": (ReadPrice, ""),
    "a list of models": (list[Price], r"Message\.x\.0: a serializer writes"),
    "a field inside": (Marked, r"Message\.x\.x: a serializer writes '[0-9]+!'"),
    "an annotation": (
        Annotated[int, PlainSerializer(lambda value: f"#{value}")],
        r"Message\.x: a serializer writes '#",
    ),
    "an annotation that is read": (Annotated[int, PlainSerializer(lambda value: str(value))], ""),
    "a function for other values": (Annotated[int, PlainSerializer(lambda value: value.missing)], ""),
    "lists": (Annotated[set[int], PlainSerializer(lambda value: sorted(value))], ""),
}


@pytest.mark.parametrize("name", WITH_SERIALIZERS)
@pytest.mark.parametrize(("role", "base"), [("action_cls", Action), ("observation_cls", Observation)])
@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_what_a_serializer_writes_is_read_or_refused_with_the_field(name, role, base):
    declared, problem = WITH_SERIALIZERS[name]
    message = create_model("Message", __base__=base, x=(declared, ...))

    if problem:
        with pytest.raises(TypeError, match=problem):
            resolve_env_spec(CountingEnvironment, **{role: message})
    else:
        resolve_env_spec(CountingEnvironment, **{role: message})


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_an_action_that_is_written_with_fields_that_it_does_not_take_is_refused():
    with pytest.raises(TypeError, match=r"Extended\.double: a serializer writes"):
        resolve_env_spec(CountingEnvironment, Extended)


class Target(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    handle: Handle


@pytest.mark.parametrize(("declared", "place"), [(Handle, "Move.x"), (list[Target], "Target.handle"), (type, "Move.x")])
def test_a_field_that_no_schema_describes_is_served_and_named_in_a_warning(declared, place, caplog):
    resolve_env_spec(CountingEnvironment, create_model("Move", __base__=Action, x=(declared, ...)))

    (warning,) = [record.getMessage() for record in caplog.records if "no schema describes" in record.getMessage()]
    assert warning.startswith(f"{place} is of a type")


@pytest.mark.parametrize(("declared", "warnings"), [(Array, 1), (Annotated[Array, Box(-1, 1, (2,))], 0)])
def test_an_action_whose_array_has_no_box_is_named_in_a_warning(declared, warnings, caplog):
    resolve_env_spec(CountingEnvironment, create_model("Move", __base__=Action, x=(declared, ...)))

    named = [record for record in caplog.records if "Move.x is an Array of any shape" in record.getMessage()]
    assert len(named) == warnings


@pytest.mark.parametrize("wrong", [3, "echo", Observation])
def test_what_is_no_environment_is_refused_with_the_remedy(wrong):
    with pytest.raises(TypeError, match=r"Environment"):
        resolve_env_spec(wrong)
