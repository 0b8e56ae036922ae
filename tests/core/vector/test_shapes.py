"""Observations that do not stack: which environments they fail, and what becomes of the others."""

import re
from typing import Any

import numpy as np
import pytest

from openenv.core.env_client import EnvClient
from openenv.core.env_server import Action, Environment, Observation, State, create_app
from openenv.core.errors import EpisodeOver
from openenv.core.vector.env import VectorEnv

NOT_NUMBERS, RAISES = 0, -1


class Sized(Observation):
    grid: list[list[float]]
    word: str


class SizeAction(Action):
    size: int
    ends: bool = False


class SizedEnvironment(Environment[SizeAction, Sized, State]):
    """Shows a grid of the size that the action asks for; the sizes that its episodes begin with are given at a reset,
    whose seed is the place in them. The last one counts for all that follow."""

    def __init__(self):
        super().__init__()
        self._mine, self._begun = [2], 0

    def reset(self, seed=None, episode_id=None, sizes=(), **kwargs):
        if seed < len(sizes):
            self._mine, self._begun = sizes[seed], 0
        size = self._mine[min(self._begun, len(self._mine) - 1)]
        self._begun += 1
        return self._seen("begin", size)

    def step(self, action, timeout_s=None, **kwargs):
        return self._seen("go", action.size, action.ends)

    @property
    def state(self):
        return State()

    def _seen(self, word, size, ends=False):
        if size == RAISES:
            raise ValueError("no level")
        grid = [[1.0], [1.0, 2.0]] if size == NOT_NUMBERS else [[1.0] * size]
        return Sized(grid=grid, word=word, reward=1.0, done=ends)


class SizedEnv(EnvClient[SizeAction, Sized, State]):
    pass


@pytest.fixture
def begun(serving):
    """A vector whose environments have begun with those sizes: one for each, or one for each of its episodes."""
    opened = []

    def begin(sizes: list[Any], **settings: Any) -> VectorEnv:
        envs = SizedEnv(serving(create_app(SizedEnvironment))).vector(len(sizes), **settings)
        opened.append(envs)
        reset(envs, sizes)
        return envs

    yield begin
    for envs in opened:
        envs.close()


def reset(envs, sizes):
    each = [size if isinstance(size, list) else [size] for size in sizes]
    return envs.reset(seed=list(range(len(sizes))), options={"sizes": each})


def step(envs, sizes, ends=()):
    ended = [row in ends for row in range(len(sizes))]
    return envs.step({"size": np.array(sizes), "ends": np.array(ended)})


def errors(infos):
    return {row: str(error) for row, error in infos.get("errors", {}).items()}


AUTORESETS = pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
BEGINNING = pytest.mark.parametrize("autoreset", ["next_step", "same_step"])


@AUTORESETS
def test_an_observation_outside_the_space_is_an_error_of_its_environment_alone(begun, autoreset):
    envs = begun([2, 2, 2], autoreset=autoreset)
    then, rewards, terminated, _, infos = step(envs, [3, 2, 2], ends=[0])
    assert then["grid"][1:].tolist() == [[[1.0, 1.0]]] * 2
    assert infos["failed"].tolist() == [True, False, False]
    assert np.isnan(rewards[0])
    assert rewards[1:].tolist() == [1.0, 1.0]
    assert not terminated.any()
    assert "grid: shape (1, 3) is not in the observation space, whose shape is (1, 2)" in errors(infos)[0]
    then, *_, infos = step(envs, [2, 2, 2])
    assert then["word"][1:] == ("go", "go")
    if autoreset == "disabled":
        assert isinstance(infos["errors"][0], EpisodeOver)
    else:
        assert "failed" not in infos
        assert (then["word"][0], step(envs, [2, 2, 2])[0]["word"][0]) == ("begin", "go")


@BEGINNING
def test_an_autoreset_to_another_shape_is_an_error_and_the_others_go_on(begun, autoreset):
    envs = begun([[2, 3, 2], 2, 2], autoreset=autoreset)
    _, rewards, terminated, _, infos = step(envs, [2, 2, 2], ends=[0])
    assert rewards[1:].tolist() == [1.0, 1.0]
    assert terminated.tolist() == [True, False, False]
    if autoreset == "same_step":
        assert (rewards[0], infos["final_obs"][0]["grid"].tolist()) == (1.0, [[1.0, 1.0]])
    else:
        _, rewards, _, _, infos = step(envs, [2, 2, 2])
        assert np.isnan(rewards[0])
        assert rewards[1:].tolist() == [1.0, 1.0]
    assert infos["failed"].tolist() == [True, False, False]
    assert "grid: shape (1, 3) is not in the observation space, whose shape is (1, 2)" in errors(infos)[0]
    then, rewards, *_, infos = step(envs, [2, 2, 2])
    assert "failed" not in infos
    assert (then["word"], rewards.tolist()) == (("begin", "go", "go"), [0.0, 1.0, 1.0])


@BEGINNING
def test_of_several_autoresets_only_those_outside_the_space_fail(begun, autoreset):
    envs = begun([2, 2, [2, 3], [2, 3], [2, 2], [2, RAISES, 2]], autoreset=autoreset)
    then, *_, infos = step(envs, [2] * 6, ends=[2, 3, 4, 5])
    if autoreset == "next_step":
        then, *_, infos = step(envs, [2] * 6)
    assert {row: message[:20] for row, message in errors(infos).items()} == {
        2: "grid: shape (1, 3) i",
        3: "grid: shape (1, 3) i",
        5: "no level",
    }
    assert (then["word"][0], then["word"][1], then["word"][4]) == ("go", "go", "begin")


@BEGINNING
def test_a_failed_reset_keeps_its_own_error_beside_one_of_another_shape(begun, autoreset):
    envs = begun([2, [2, 3], [2, RAISES]], autoreset=autoreset)
    *_, infos = step(envs, [2, 2, 2], ends=[1, 2])
    if autoreset == "next_step":
        *_, infos = step(envs, [2, 2, 2])
    assert errors(infos)[2] == "no level"
    assert "shape (1, 3) is not in the observation space, whose shape is (1, 2)" in errors(infos)[1]


@BEGINNING
def test_an_environment_alone_whose_observation_is_no_array_begins_again(begun, autoreset):
    envs = begun([2], autoreset=autoreset)
    _, rewards, terminated, _, infos = step(envs, [NOT_NUMBERS], ends=[0])
    assert (np.isnan(rewards[0]), terminated[0]) == (True, False)
    assert "grid: [[1.0], [1.0, 2.0]] is not an array of numbers" in errors(infos)[0]
    then, *_, infos = step(envs, [2])
    assert (then["word"], "failed" in infos) == (("begin",), False)


def test_the_last_live_environment_may_fail_beside_others_that_are_over(begun):
    envs = begun([2, 2], autoreset="disabled")
    step(envs, [2, 2], ends=[1])
    *_, infos = step(envs, [NOT_NUMBERS, 2])
    assert "is not an array of numbers" in errors(infos)[0]
    assert isinstance(infos["errors"][1], EpisodeOver)
    with pytest.raises(EpisodeOver):
        step(envs, [2, 2])


def test_a_final_observation_outside_the_space_fails_alone(begun):
    envs = begun([2] * 3, num_sessions=3, autoreset="same_step")
    _, rewards, terminated, _, infos = step(envs, [2, 3, 2], ends=[0, 1, 2])
    assert set(errors(infos)) == {1}
    assert (rewards.tolist()[::2], terminated.tolist()) == ([1.0, 1.0], [True, False, True])
    assert infos["final_obs"][2]["grid"].tolist() == [[1.0, 1.0]]


BREAKS_THE_SPACE = r"grid: shape \(1, 3\) is not in the observation space, whose shape is \(1, 2\)"


@AUTORESETS
def test_a_session_that_breaks_the_space_fails_with_its_field_named_and_the_others_go_on(begun, autoreset):
    envs = begun([2] * 6, num_sessions=3, autoreset=autoreset)
    then, rewards, terminated, _, infos = step(envs, [3, 3, 2, 2, 2, 2], ends=[5])
    assert infos["failed"].tolist() == [True, True, False, False, False, False]
    assert re.search(BREAKS_THE_SPACE, errors(infos)[1])
    assert np.isnan(rewards[:2]).all()
    assert rewards[2:].tolist() == [1.0] * 4
    assert terminated.tolist() == [False] * 5 + [True]
    assert envs.observation_space["grid"].contains(then["grid"].astype(np.float64))
    if autoreset == "disabled":
        with pytest.raises(EpisodeOver):
            step(envs, [2] * 6)
    else:
        then, *_, infos = step(envs, [2] * 6)
        assert "failed" not in infos
        assert then["word"][:5] == ("begin",) * 2 + ("go",) * 3


def test_a_session_alone_that_breaks_the_space_fails_too(begun):
    envs = begun([2, 2])
    *_, infos = step(envs, [3, 3])
    assert infos["failed"].all()
    assert re.search(BREAKS_THE_SPACE, errors(infos)[0])
    assert "failed" not in step(envs, [2, 2])[4]


def test_recv_checks_the_space_too(begun):
    envs = begun([2, 2], num_sessions=2)
    envs.send({"size": np.array([2, 3]), "ends": np.zeros(2, dtype=bool)})
    failed = {}
    for _ in range(2):
        *_, infos = envs.recv()
        failed[infos["env_ids"].item()] = "failed" in infos
    assert failed == {0: False, 1: True}


@pytest.mark.parametrize("num_sessions", [1, 2])
def test_a_reset_to_another_shape_fails_with_the_field_named(begun, num_sessions):
    envs = begun([2, 2], num_sessions=num_sessions)
    _, infos = reset(envs, [3, 2])
    assert infos["failed"].tolist() == [True, False]
    assert re.search(BREAKS_THE_SPACE, errors(infos)[0])
    assert reset(envs, [2, 2])[0]["grid"].shape == (2, 1, 2)
