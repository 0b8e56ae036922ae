"""Environments as `gymnasium.Env`: they pass Gymnasium's own check, with spaces from their classes."""

import warnings
from random import Random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from pydantic import Field

from openenv import AutoEnv
from openenv.auto.environment import named_environment
from openenv.core import Action, EnvClient, Environment, Observation, State
from openenv.core.env_server import create_app
from openenv.core.errors import EnvironmentFault, NotReady
from openenv.core.vector.spaces import single_action_space
from openenv.envs.echo_env.server.app import app as echo
from openenv.envs.guess_env.server.app import app as guess
from openenv.envs.gymnasium_env.server.app import app as gymnasium_app
from openenv.envs.maze_env import MazeAction, MazeEnv
from openenv.envs.maze_env.server.app import app as maze
from openenv.envs.openspiel_env import OpenSpielEnv
from openenv.envs.openspiel_env.server.app import app as openspiel
from openenv.integrations.gymnasium import SingleEnv, make
from tests.integrations_table import Record

APPS = {"echo": echo, "guess": guess, "gymnasium": gymnasium_app, "maze": maze, "openspiel": openspiel}
WHOLE = np.iinfo(np.int64)


class TurnAction(Action):
    """Two fields."""

    angle: float = Field(ge=-1, le=1)
    gear: int = Field(ge=0, lt=4)


class TurnObservation(Observation):
    """A field with bounds, one with a lower bound, and one without."""

    speed: int = Field(default=0, ge=0, le=9)
    height: float = Field(default=0.0, ge=-0.5)
    is_on: bool = False


class TurnEnvironment(Environment[TurnAction, TurnObservation, State]):
    """Observes the gear."""

    execution = "inline"

    def reset(self, seed=None, episode_id=None, **kwargs):
        return TurnObservation()

    def step(self, action, timeout_s=None, **kwargs):
        return TurnObservation(speed=action.gear, height=0.25, is_on=True)

    @property
    def state(self):
        return State()


class TurnEnv(EnvClient[TurnAction, TurnObservation, State]):
    """Its client."""


@pytest.fixture(scope="module")
def url_of(module_serving):
    urls = {}

    def served(name):
        urls.setdefault(name, None)
        urls[name] = urls[name] or module_serving(APPS[name])
        return urls[name]

    return served


@pytest.mark.parametrize(
    ("name", "options", "action_space"),
    [
        ("echo", {}, spaces.Text),
        ("guess", {}, spaces.Discrete(10)),
        ("maze", {"size": 9}, spaces.Discrete(4)),
        ("openspiel", {"game_name": "catch"}, spaces.Discrete(3)),
        ("openspiel", {"game_name": "blackjack"}, spaces.Discrete(2)),
        ("openspiel", {"game_name": "tic_tac_toe"}, spaces.Discrete(9)),
        ("gymnasium", {"env_id": "CartPole-v1"}, spaces.Discrete(2)),
        ("gymnasium", {"env_id": "Pendulum-v1"}, spaces.Box(-2.0, 2.0, (1,), np.float32)),
        ("gymnasium", {"env_id": "Blackjack-v1"}, spaces.Discrete(2)),
    ],
)
def test_an_environment_passes_gymnasiums_check(url_of, name, options, action_space):
    with make(name, base_url=url_of(name), options=options, illegal_reward=-1.0) as env, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env)

        is_kind = isinstance(action_space, type)
        assert isinstance(env.action_space, action_space) if is_kind else env.action_space == action_space


@pytest.mark.parametrize(
    ("env_id", "action"),
    [("CartPole-v1", 1), ("FrozenLake-v1", 2), ("MountainCarContinuous-v0", np.ones(1, np.float32))],
)
def test_an_environment_of_gymnasium_comes_back_as_it_was(url_of, env_id, action):
    bare = gymnasium.make(env_id)
    with make("gymnasium", base_url=url_of("gymnasium"), options={"env_id": env_id}) as env:
        assert (env.action_space, env.observation_space) == (bare.action_space, bare.observation_space)
        assert np.array_equal(env.reset(seed=3)[0], bare.reset(seed=3)[0])
        assert all(map(np.array_equal, env.step(action)[:4], bare.step(action)[:4]))


def test_bounds_of_the_declared_fields_are_bounds_of_the_spaces(serving):
    with SingleEnv(TurnEnv(serving(create_app(TurnEnvironment))).vector(1, autoreset="disabled")) as env:
        assert env.observation_space == spaces.Dict(
            height=spaces.Box(-0.5, np.inf, (), np.float64),
            is_on=spaces.Discrete(2),
            speed=spaces.Box(0, 9, (), np.int64),
        )
        assert env.action_space == spaces.Dict(angle=spaces.Box(-1, 1, (), np.float64), gear=spaces.Discrete(4))
        env.reset(seed=1)
        observation, *_ = env.step({"angle": 0.5, "gear": 3})
        assert observation == {"height": 0.25, "is_on": 1, "speed": 3}
        observation, *_ = env.step(env.action_space.sample())
        assert observation in env.observation_space


class ColumnAction(Action):
    """Columns are counted from 1."""

    column: int = Field(gt=0, le=5)


class ColumnObservation(Observation):
    """The columns that are open."""

    legal_actions: list[int] = Field(default_factory=list)


class ColumnEnvironment(Environment[ColumnAction, ColumnObservation, State]):
    """Columns 1 and 4 are closed."""

    execution = "inline"

    def reset(self, seed=None, episode_id=None, **kwargs):
        return ColumnObservation(legal_actions=[2, 3, 5])

    def step(self, action, timeout_s=None, **kwargs):
        if action.column not in (2, 3, 5):
            raise ValueError(f"column {action.column} is closed")
        return ColumnObservation(legal_actions=[2, 3, 5], reward=float(action.column))

    @property
    def state(self):
        return State()


class ColumnEnv(EnvClient[ColumnAction, ColumnObservation, State]):
    """Its client."""


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_numbers_between_two_bounds_are_a_discrete_space_whose_mask_has_the_legal_ones(serving):
    url = serving(create_app(ColumnEnvironment))
    with SingleEnv(ColumnEnv(url).vector(1, autoreset="disabled")) as env:
        assert env.action_space == spaces.Discrete(5, start=1)
        _, info = env.reset(seed=1)
        assert info["action_mask"].tolist() == [0, 1, 1, 0, 1]
        env.action_space.seed(0)
        drawn = [env.action_space.sample(info["action_mask"]) for _ in range(40)]
        rewards = {action: env.step(action)[1] for action in drawn}

    assert rewards == {2: 2.0, 3: 3.0, 5: 5.0}


@pytest.mark.parametrize(
    ("field", "space"),
    [
        ({"type": "integer", "minimum": -2, "maximum": 2}, spaces.Discrete(5, start=-2)),
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 3}, spaces.Discrete(2, start=1)),
        ({"n": 4}, spaces.Discrete(4)),
        ({"type": "integer", "minimum": 1}, spaces.Box(1, 1 << 62, (), np.int64)),
        ({"n": 1 << 63}, spaces.Box(0, 1 << 62, (), np.int64)),
    ],
)
def test_the_space_of_whole_numbers_follows_from_their_bounds(field, space):
    assert single_action_space({"value": field}) == (space, "value")


def test_words_are_numbers_and_the_mask_has_the_legal_ones(url_of):
    with make("maze", base_url=url_of("maze")) as env, MazeEnv(url_of("maze")) as single:
        observation, info = env.reset(seed=4)
        seen = single.reset(seed=4).observation
        while not seen.done:
            assert observation == {name: getattr(seen, name) for name in observation}
            words = ["north", "south", "west", "east"]
            assert [word for word, is_open in zip(words, info["action_mask"], strict=True) if is_open] == sorted(
                seen.legal_actions, key=words.index
            )
            action = env.action_space.sample(info["action_mask"])
            observation, reward, terminated, truncated, info = env.step(action)
            result = single.step(MazeAction(direction=words[action]))
            seen = result.observation
            assert (reward, terminated or truncated) == (result.reward or 0.0, seen.done)


def test_an_illegal_action_raises_or_costs_the_given_reward(url_of):
    options = {"game_name": "tic_tac_toe"}
    with make("openspiel", base_url=url_of("openspiel"), options=options) as env:
        _, info = env.reset(seed=1)
        illegal = int(np.flatnonzero(env.step(0)[4]["action_mask"] == 0)[0])
        with pytest.raises(EnvironmentFault, match="is not legal"):
            env.step(illegal)
    with make("openspiel", base_url=url_of("openspiel"), options=options, illegal_reward=-0.5) as env:
        _, info = env.reset(seed=1)
        before, *_, info = env.step(0)
        observation, reward, terminated, truncated, info = env.step(illegal)

        assert (reward, terminated, truncated) == (-0.5, False, False)
        assert "is not legal" in info["refused"]
        assert all(np.array_equal(observation[name], before[name]) for name in before)


class BrokenEnvironment(Environment[ColumnAction, ColumnObservation, State]):
    """Refuses column 1, and fails in column 2."""

    execution = "inline"

    def reset(self, seed=None, episode_id=None, **kwargs):
        return ColumnObservation()

    def step(self, action, timeout_s=None, **kwargs):
        if action.column == 1:
            raise ValueError("column 1 is closed")
        raise RuntimeError("the board is lost")

    @property
    def state(self):
        return State()


def test_a_failure_of_the_environment_is_no_illegal_action(serving):
    url = serving(create_app(BrokenEnvironment))
    with SingleEnv(ColumnEnv(url).vector(1, autoreset="disabled"), illegal_reward=-1.0) as env:
        env.reset(seed=1)
        assert env.step(1)[1] == -1.0
        with pytest.raises(EnvironmentFault, match="the board is lost"):
            env.step(2)


def test_one_seed_repeats_the_episodes_that_follow(url_of):
    with make("gymnasium", base_url=url_of("gymnasium")) as env:
        runs = [[env.reset(seed=seed)[0].tolist() for seed in (5, None, None)] for _ in range(2)]

    assert runs[0] == runs[1]
    assert runs[0][1] != runs[0][2]


def test_a_reset_with_an_unknown_keyword_raises(url_of):
    with make("gymnasium", base_url=url_of("gymnasium")) as env, pytest.raises(EnvironmentFault, match="not known"):
        env.reset(options={"level": 3})


def test_another_vector_is_refused(url_of):
    with OpenSpielEnv(url_of("openspiel")).vector(2) as envs, pytest.raises(ValueError, match="a vector of one"):
        SingleEnv(envs)


@pytest.mark.process
@pytest.mark.integration("Gymnasium", "50 episodes beside gymnasium.make, by gymnasium:ID", package="gymnasium")
@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "CartPole-v1"])
def test_rewards_equal_those_of_gymnasiums_own_environment(env_id: str, record_property: Record) -> None:
    own, found, home = gymnasium.make(env_id), list[list[float]](), list[list[float]]()
    with AutoEnv.from_env(f"gymnasium:{env_id}") as env:
        for seed in range(50):
            own.reset(seed=seed)
            result, rng, over = env.reset(seed=seed), Random(seed), False
            found.append([])
            home.append([])
            while not over:
                action = rng.randrange(own.action_space.n)
                result = env.step({"value": action})
                _, reward, terminated, truncated, _ = own.step(action)
                over = terminated or truncated
                found[-1].append(result.reward)
                home[-1].append(float(reward))
                assert result.done == over
    record_property("figure", f"{env_id}: 50 episodes, mean return {sum(map(sum, found)) / 50:.2f}")
    assert found == home
    assert len({sum(rewards) for rewards in home}) > 1


@pytest.mark.process
def test_an_id_that_gymnasium_does_not_have_is_refused_with_a_near_one() -> None:
    with (
        pytest.raises(NotReady, match=r"env_id='CartPole-v9' is not among"),
        named_environment("gymnasium:CartPole-v9").served(),
    ):
        pass
