"""Types of fields that no schema describes whole: the page, random play, the text and both clients take them."""

import datetime as dt
from random import Random
from typing import Annotated, Any

import httpx
import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    FutureDatetime,
    PastDate,
    PlainSerializer,
    Tag,
    computed_field,
    field_serializer,
    model_serializer,
)

from openenv.auto.environment import named_environment
from openenv.core import Action, EnvClient, Environment, Observation, State
from openenv.core.env_server import create_app

FUTURE = dt.datetime(2150, 1, 1, tzinfo=dt.UTC)
pytestmark = pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")


class Walk(BaseModel):
    """Has a computed field."""

    model_config = ConfigDict(extra="forbid")

    steps: int

    @computed_field
    @property
    def metres(self) -> float:
        return 0.7 * self.steps


class Rest(BaseModel):
    """Differs from the other by its fields alone."""

    model_config = ConfigDict(extra="forbid")

    hours: int


def kind_of(value: Any) -> str:
    has_steps = "steps" in value if isinstance(value, dict) else isinstance(value, Walk)
    return "walk" if has_steps else "rest"


Plan = Annotated[Annotated[Walk, Tag("walk")] | Annotated[Rest, Tag("rest")], Discriminator(kind_of)]


class TripAction(Action):
    """Plans a part of a trip."""

    born: PastDate
    until: FutureDatetime
    plan: Plan


class TripObservation(Observation):
    """Repeats it, and has fields that functions write."""

    born: PastDate = dt.date(2000, 1, 1)
    until: FutureDatetime = FUTURE
    plan: Plan = Rest(hours=1)
    others: list[Plan] = []  # noqa: RUF012  pydantic copies it
    took: dt.timedelta = dt.timedelta(seconds=5)
    price: Annotated[int, PlainSerializer(lambda value: f"0{value}")] = 7

    @field_serializer("took")
    def seconds(self, value):
        return value.total_seconds()


class ScoreObservation(Observation):
    """Is written by a function that adds a field."""

    points: int = 3

    @model_serializer(mode="wrap")
    def with_double(self, write):
        return {**write(self), "double": 2 * self.points}


class TripEnvironment(Environment[TripAction, TripObservation, State]):
    """Repeats the action."""

    execution = "inline"

    def reset(self, seed=None, episode_id=None, **kwargs):
        return TripObservation()

    def step(self, action, timeout_s=None, **kwargs):
        others = [action.plan, Walk(steps=2), Rest(hours=2)]
        return TripObservation(born=action.born, until=action.until, plan=action.plan, others=others)

    @property
    def state(self):
        return State()


class ScoreEnvironment(Environment[TripAction, ScoreObservation, State]):
    """Counts points."""

    execution = "inline"

    def reset(self, seed=None, episode_id=None, **kwargs):
        return ScoreObservation()

    def step(self, action, timeout_s=None, **kwargs):
        return ScoreObservation(points=4)

    @property
    def state(self):
        return State()


class TripEnv(EnvClient[TripAction, TripObservation, State]):
    """Its client."""


class ScoreEnv(EnvClient[TripAction, ScoreObservation, State]):
    """Its client."""


ACTION = TripAction(born=dt.date(1990, 2, 3), until=FUTURE, plan=Walk(steps=3))


@pytest.mark.parametrize("environment", [TripEnvironment, ScoreEnvironment])
def test_random_play_the_text_and_the_page_take_them(module_serving, environment):
    url = module_serving(create_app(environment))
    served = named_environment(url).served_at(url)

    with served.client() as client:
        seen = client.reset(seed=1).observation
        for number in range(20):
            reply, action = served.text.random_reply(seen, Random(number))
            seen = client.step(action).observation
            assert served.text.parse(reply, seen) == action
    shown = str(served.text.describe(seen))
    assert ("took: 5" in shown and "price: 07" in shown) or "double: 8" in shown
    assert "in the past" in served.text.instructions(seen)
    page = httpx.get(f"{url}/web/")
    assert page.status_code == 200
    assert "in the future" in page.text


def test_the_typed_client_reads_what_it_sent(module_serving):
    with TripEnv(module_serving(create_app(TripEnvironment))) as env:
        env.reset()
        seen = env.step(ACTION).observation

    assert (seen.born, seen.until, seen.plan) == (ACTION.born, ACTION.until, Walk(steps=3))
    assert seen.others == [Walk(steps=3), Walk(steps=2), Rest(hours=2)]
    assert (seen.took, seen.price) == (dt.timedelta(seconds=5), 7)


def test_the_typed_client_leaves_out_what_a_serializer_added(module_serving):
    with ScoreEnv(module_serving(create_app(ScoreEnvironment))) as env:
        env.reset()
        result = env.step(ACTION)

    assert (result.observation.points, result.done) == (4, False)
