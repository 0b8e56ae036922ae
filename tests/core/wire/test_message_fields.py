"""What a server writes of an observation, the client of the same classes reads."""

import datetime as dt
import math
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal

import httpx
import orjson
import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field

from openenv.core import Action, EnvClient, Environment, Observation, State
from openenv.core.env_server import create_app
from openenv.core.env_server.runner.observation_json import observation_data
from openenv.core.errors import EnvironmentFault, OpenEnvError, UnreadableResponse
from openenv.core.generic_client import GenericEnvClient
from openenv.core.wire.message_fields import has_models, read_message


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str

    @computed_field
    @property
    def length(self) -> int:
        return len(self.name)


class Weapon(Item):
    damage: int


class Move(Action):
    direction: str = Field(default="north", alias="to")
    carried: list[Item] = Field(default_factory=list)

    @computed_field
    @property
    def letter(self) -> str:
        return self.direction[0]


class Gauge(Observation):
    level: float = 0.0
    levels: list[float] = Field(default_factory=list)
    by_name: dict[str, float | None] = Field(default_factory=dict)


class Seen(Observation):
    items: list[Item] = Field(default_factory=list)
    best: Item | None = None
    class_: str = Field(default="", alias="class")
    price: Decimal = Decimal(0)
    at: dt.datetime | None = None
    by_id: dict[int, str] = Field(default_factory=dict)
    tags: set[str] = Field(default_factory=set)

    @computed_field
    @property
    def count(self) -> int:
        return len(self.items)


class Won(Seen):
    trophy: str


class Progress(State):
    items: list[Item] = Field(default_factory=list)

    @computed_field
    @property
    def share(self) -> float:
        return 0.5


class Zoo(Environment[Move, Seen, Progress]):
    execution = "inline"

    def reset(self, seed=None, episode_id=None, **kwargs):
        axe = Weapon(name="axe", damage=7)
        return Seen(
            items=[axe, Item(name="rope")], best=axe, price="12.30", at="2030-01-02T03:04:05+00:00",
            by_id={3: "three"}, tags={"a"}, **{"class": "mage"},
        )  # fmt: skip

    def step(self, action, timeout_s=None, **kwargs):
        return Won(trophy=action.direction, done=True)

    @property
    def state(self):
        return Progress(items=[Weapon(name="axe", damage=7)])


class ZooEnv(EnvClient[Move, Seen, Progress]):
    """Its client."""


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(create_app(Zoo))


def test_an_object_inside_is_written_with_the_fields_of_its_own_class(url):
    with GenericEnvClient(url) as env:
        seen = env.reset().observation
        assert seen["items"] == [{"name": "axe", "damage": 7, "length": 3}, {"name": "rope", "length": 4}]
        assert (seen["best"]["damage"], seen["class_"], seen["count"]) == (7, "mage", 2)
        assert env.state()["items"][0]["damage"] == 7


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_the_typed_client_reads_each_kind_of_field(url):
    with ZooEnv(url) as env:
        seen = env.reset().observation

        assert (seen.class_, seen.price, seen.by_id, seen.tags) == ("mage", Decimal("12.30"), {3: "three"}, {"a"})
        assert (seen.at.year, seen.count, [item.name for item in seen.items]) == (2030, 2, ["axe", "rope"])
        assert (env.state().share, env.state().items[0].name) == (0.5, "axe")


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_an_observation_of_a_subclass_is_read_as_one(url):
    with ZooEnv(url) as env:
        env.reset()
        result = env.step(Move(to="south"))

    assert (type(result.observation), result.observation.trophy) == (Won, "south")


def test_an_action_may_have_its_fields_by_their_names_or_their_aliases(url):
    with GenericEnvClient(url) as env:
        env.reset()
        assert env.step({"to": "east"}).observation["trophy"] == "east"
        env.reset()
        assert env.step({"direction": "west"}).observation["trophy"] == "west"


def test_the_schema_describes_what_is_on_the_wire(url):
    properties = httpx.get(f"{url}/schema").json()["observation"]["properties"]

    assert {"class_", "count"} <= properties.keys()


def test_a_response_of_other_fields_is_an_error_of_the_one_tree():
    with pytest.raises(UnreadableResponse, match="no Seen of this client: colour: Extra inputs") as raised:
        read_message(Seen, {"colour": "red"})

    assert isinstance(raised.value, OpenEnvError)


def test_a_class_without_objects_is_written_without_looking_at_their_classes():
    assert [has_models(cls) for cls in (Observation, Seen, Progress)] == [False, True, True]


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_computed_fields_of_an_action_are_not_sent(url):
    with ZooEnv(url) as env:
        env.reset()
        result = env.step(Move(to="south", carried=[Item(name="rope")]))
        env.reset()
        other = env.step({"to": "east", "carried": [{"name": "rope"}]})

    assert (result.observation.trophy, other.observation.trophy) == ("south", "east")


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_a_null_where_a_number_must_be_is_read_as_nan():
    read = read_message(Gauge, {"level": None, "levels": [1.0, None], "by_name": {"a": None}})

    assert math.isnan(read.level)
    assert (read.levels[0], math.isnan(read.levels[1]), read.by_name) == (1.0, True, {"a": None})


class Raw(Observation):
    data: bytes = b""
    text: str = ""


class RawState(State):
    data: bytes = Field(default_factory=lambda: b"\xff")


class RawEnvironment(Environment[Move, Raw, RawState]):
    execution = "inline"

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Raw(data=b"\xff") if seed else Raw(text="a\ud800")

    def step(self, action, timeout_s=None, **kwargs):
        return Raw()

    @property
    def state(self):
        return RawState()


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_a_field_that_json_cannot_have_is_named_with_the_remedy(serving):
    with GenericEnvClient(serving(create_app(RawEnvironment))) as env:
        for seed, field in ((1, "Raw.data"), (0, "Raw.text")):
            with pytest.raises(EnvironmentFault, match=rf"{field} cannot be written as JSON .*pydantic.Base64Bytes"):
                env.reset(seed=seed)
        with pytest.raises(EnvironmentFault, match=r"RawState\.data cannot be written as JSON"):
            env.state()


class Step(BaseModel):
    model_config = ConfigDict(extra="forbid")

    length: int = 1

    @computed_field
    @property
    def twice(self) -> int:
        return 2 * self.length


class Jump(BaseModel):
    length: int = 1

    @computed_field
    @property
    def height(self) -> int:
        return 3 * self.length


class Wait(BaseModel):
    kind: Literal["wait"] = "wait"


class Turn(Step):
    kind: Literal["turn"] = "turn"


class Plan(BaseModel):
    moves: list[Step | Jump] = Field(default_factory=list)


class Planned(Observation):
    best: Step | Jump | None = None
    by_name: dict[str, Jump | Step] = Field(default_factory=dict)
    pair: tuple[str, Step | Jump] = ("", Step())
    tagged: Annotated[Wait | Turn, Field(discriminator="kind")] = Wait()
    plan: Plan = Field(default_factory=Plan)
    row: tuple[Step | Jump, ...] = ()
    either: list[Step | Jump] | dict[str, Step | Jump] = Field(default_factory=list)


@pytest.mark.parametrize(
    "seen",
    [
        Planned(best=Step(length=2)),
        Planned(best=Jump(length=2), by_name={"a": Step(), "b": Jump()}),
        Planned(row=(Jump(), Jump(), Step(), Jump()), either=[Jump(), Step()]),
        Planned(either={"a": Jump(), "b": Step()}),
        Planned(pair=("a", Jump()), tagged=Turn(length=4), plan=Plan(moves=[Jump(), Step()])),
    ],
)
@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_of_several_classes_the_one_that_was_written_is_read(seen):
    written = orjson.loads(observation_data(seen))["observation"]

    read = read_message(Planned, written)

    assert read == seen
    assert type(read.best) is type(seen.best)
    assert [type(move) for move in read.plan.moves] == [type(move) for move in seen.plan.moves]


class Colour(Enum):
    RED = "red"


class StrictMove(Action):
    model_config = ConfigDict(strict=True)

    colour: Colour
    at: dt.date


class StrictSeen(Observation):
    model_config = ConfigDict(strict=True)

    colour: Colour = Colour.RED
    place: tuple[int, int] = (1, 2)
    at: dt.date | None = None


class StrictEnvironment(Environment[StrictMove, StrictSeen, State]):
    execution = "inline"

    def reset(self, seed=None, episode_id=None, **kwargs):
        return StrictSeen()

    def step(self, action, timeout_s=None, **kwargs):
        return StrictSeen(colour=action.colour, at=action.at, done=True)

    @property
    def state(self):
        return State()


class StrictEnv(EnvClient[StrictMove, StrictSeen, State]):
    """Its client."""


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
@pytest.mark.parametrize("action", [{"colour": "red", "at": "2030-01-02"}, None])
def test_strict_messages_are_read_from_json(serving, action):
    move = action or StrictMove(colour=Colour.RED, at=dt.date(2030, 1, 2))
    with StrictEnv(serving(create_app(StrictEnvironment))) as env:
        assert env.reset().observation.place == (1, 2)
        seen = env.step(move).observation

        assert (seen.colour, seen.at) == (Colour.RED, dt.date(2030, 1, 2))
