"""What one environment of a vector returns or reuses changes nothing for the others, and nothing that was returned."""

from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import Field

from openenv.core import Action, EnvClient, Environment, Observation, State
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.vector_environment import VectorBatch, VectorEnvironment
from openenv.core.errors import EnvironmentFault
from openenv.core.session_pool import SessionPool
from openenv.core.wire.arrays import Array


class Move(Action):
    """What to do."""

    n: int = 0
    payload: Any = None


class Board(Observation):
    """Everything that a vector stacks, and everything that it does not."""

    n: int = 0
    legal: list[int] = Field(default_factory=list)
    floats: list[float] = Field(default_factory=list)
    history: list[str] = Field(default_factory=list)
    other: Any = None


class Reusing(Environment[Move, Board, State]):
    """Returns the same object at each step, with lists that it changes in place; ends after two moves."""

    execution = "inline"
    rewards: ClassVar[dict[int, Any]] = {7: float("nan"), 8: float("inf"), 9: 10**400}
    board: ClassVar[Board | None] = None

    def __init__(self) -> None:
        self.seen = self.board or Board()

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Board:
        self.seen.n, self.seen.done = 0, False
        for values in (self.seen.legal, self.seen.floats, self.seen.history, self.seen.metadata):
            values.clear()
        self.seen.legal.append(0)
        self.seen.floats.append(0.0)
        return self.seen

    def step(self, action: Move, timeout_s: float | None = None) -> Board:
        self.seen.n = action.n
        self.seen.legal.append(action.n)
        self.seen.floats[0] = action.n / 2
        self.seen.history.append(f"move {action.n}")
        self.seen.metadata["moves"] = self.seen.history
        self.seen.other = action.payload
        self.seen.reward = self.rewards.get(action.n, float(action.n))
        self.seen.done = len(self.seen.history) == 2
        return self.seen

    @property
    def state(self) -> State:
        return State()


class Shared(Reusing):
    """All instances return one object."""

    board = Board()


class BoardEnv(EnvClient[Move, Board, State]):
    """Plays any of them."""


@pytest.fixture(params=["inline", "thread"])
def vector(serving, request):
    opened = []

    def open_vector(environment_cls, num_envs, **settings):
        url = serving(create_app(environment_cls, config=ServerConfig(execution=request.param)))
        opened.append(BoardEnv(url).vector(num_envs, **settings))
        opened[-1].reset(seed=1)
        return opened[-1]

    yield open_vector
    for envs in opened:
        envs.close()


@pytest.mark.finding("the last observations of a vector are those of the episodes that ended")
def test_the_last_observations_are_those_of_the_episodes_that_ended(vector):
    envs = vector(Reusing, 2, autoreset="same_step")
    envs.step({"n": np.array([1, 2])})
    observations, _, _, _, infos = envs.step({"n": np.array([3, 4])})

    last = infos["final_obs"][1]
    assert (last["n"], last["legal"].tolist(), last["floats"].tolist()) == (4, [0, 2, 4], [2.0])
    assert infos["final_info"]["history"] == [["move 1", "move 3"], ["move 2", "move 4"]]
    assert infos["final_info"]["metadata"][0] == {"moves": ["move 1", "move 3"]}
    assert [legal.tolist() for legal in observations["legal"]] == [[0], [0]]
    assert infos["history"] == [[], []]


@pytest.mark.finding("the last observations of a vector are those of the episodes that ended")
def test_environments_that_return_one_object_have_each_what_they_returned(vector):
    envs = vector(Shared, 3, autoreset="disabled")
    observations, rewards, _, _, infos = envs.step({"n": np.array([1, 2, 3])})

    assert observations["n"].tolist() == rewards.tolist() == [1.0, 2.0, 3.0]
    assert observations["floats"].tolist() == [[0.5], [1.0], [1.5]]
    assert infos["history"][0] == ["move 1"]


@pytest.mark.finding(
    "a reward that is no finite number is a fault, not a zero",
    "huge integers in a vector fail one environment alone, or nothing",
)
@pytest.mark.parametrize("n", Reusing.rewards)
def test_a_reward_that_is_no_finite_number_fails_its_environment_alone(vector, n):
    envs = vector(Reusing, 3, autoreset="disabled")
    _, rewards, _, _, infos = envs.step({"n": np.array([1, n, 3])})

    assert isinstance(infos["errors"][1], EnvironmentFault)
    assert "a reward is a finite number" in str(infos["errors"][1])
    assert infos["failed"].tolist() == [False, True, False]
    assert (rewards[0], np.isnan(rewards[1]), rewards[2]) == (1.0, True, 3.0)


class Diverging(VectorEnvironment):
    """A library's vector, whose second reward is infinite."""

    def reset(self, env_ids, requests):
        return self._batch(len(env_ids), np.nan)

    autoreset = reset

    def step(self, env_ids, actions):
        batch = self._batch(len(env_ids), 1.0)
        batch.reward[1] = np.inf
        return batch

    def action_fields(self):
        return {"n": {"type": "integer"}}

    def _batch(self, num_rows, reward):
        ended = np.zeros(num_rows, dtype=np.bool_)
        return VectorBatch({"n": np.zeros(num_rows, int)}, np.full(num_rows, reward), ended, ended.copy())


class Library(Reusing):
    """Has that vector."""

    def vectorized(self, num_envs):
        return Diverging()


@pytest.mark.finding("a reward that is no finite number is a fault, not a zero")
def test_a_librarys_reward_that_is_no_finite_number_fails_its_environment_alone(vector):
    envs = vector(Library, 3)
    _, rewards, _, _, infos = envs.step({"n": np.array([1, 1, 1])})

    assert list(infos["errors"]) == [1]
    assert np.isnan(rewards[1])
    assert rewards[[0, 2]].tolist() == [1.0, 1.0]


@pytest.mark.finding("a reward that is no finite number is a fault, not a zero")
async def test_a_pool_has_the_fault_of_each_session(serving):
    async with SessionPool(BoardEnv, serving(create_app(Reusing)), 2) as pool:
        await pool.reset({0: {}, 1: {}})
        results = await pool.step({0: Move(n=7), 1: Move(n=1)})

    assert isinstance(results[0], EnvironmentFault)
    assert results[1].reward == 1.0


LIKE_ARRAYS = [{"$array": 5}, {"$array": [0, "<f8", [1]]}, {"$$array": 1}, [{"a": {"$array": {"$array": []}}}]]


@pytest.mark.finding("metadata that holds an array reference of its own is data")
@pytest.mark.parametrize("payload", LIKE_ARRAYS)
def test_data_in_the_form_of_an_array_reference_is_data(vector, payload):
    envs = vector(Reusing, 2, autoreset="same_step")
    for _ in range(2):
        _, rewards, _, _, infos = envs.step({"n": np.array([1, 2]), "payload": [payload, {"b": 1}]})
        assert (rewards.tolist(), infos["other"][:2]) == ([1.0, 2.0], [payload, {"b": 1}])
    assert infos["final_info"]["other"] == [payload, {"b": 1}]


class Pixels(Observation):
    """An array, and anything beside it."""

    pixels: Array
    other: Any = None


class Screen(Environment[Move, Pixels, State]):
    """Repeats the payload and metadata of an action beside its pixels."""

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Pixels:
        return Pixels(pixels=np.zeros((2, 2)))

    def step(self, action: Move, timeout_s: float | None = None) -> Pixels:
        return Pixels(pixels=np.full((2, 2), action.n), other=action.payload, metadata=action.metadata)

    @property
    def state(self) -> State:
        return State()


class ScreenEnv(EnvClient[Move, Pixels, State]):
    """Reads arrays as raw bytes."""


@pytest.mark.finding("metadata that holds an array reference of its own is data")
@pytest.mark.parametrize("payload", LIKE_ARRAYS)
def test_data_in_the_form_of_an_array_reference_is_data_beside_an_array(serving, payload):
    with ScreenEnv(serving(create_app(Screen))) as env:
        env.reset()
        result = env.step(Move(n=3, payload=payload, metadata={"x": payload}))

        assert (result.observation.other, result.metadata) == (payload, {"x": payload})
        assert result.observation.pixels.tolist() == [[3, 3], [3, 3]]


@pytest.mark.finding("huge integers in a vector fail one environment alone, or nothing")
def test_a_seed_beyond_64_bits_is_as_good_as_any(vector):
    envs = vector(Reusing, 2)
    infos = envs.reset(seed=[2**64, 10**30])[1]

    assert infos["seeds"].tolist() == [2**64, 10**30]
    assert envs.step({"n": np.array([1, 2])})[1].tolist() == [1.0, 2.0]
