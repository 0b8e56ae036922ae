"""Observations that do not stack: which environments they fail, and what becomes of the others."""

from typing import Any

import numpy as np
import pytest

from openenv.core.env_client import EnvClient
from openenv.core.env_server import Action, Environment, Observation, State, create_app
from openenv.core.errors import EnvironmentFault, EpisodeOver
from openenv.core.vector_env import VectorEnv

NOT_NUMBERS, RAISES = 0, -1


class Sized(Observation):
    grid: list[list[float]]
    word: str


class SizeAction(Action):
    size: int
    ends: bool = False


class SizedEnvironment(Environment[SizeAction, Sized, State]):
    """Shows a grid of the size that the action asks for; the sizes that its episodes begin with are told at a reset,
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
def test_an_observation_of_another_shape_than_most_is_an_error_of_its_environment_alone(begun, autoreset):
    envs = begun([2, 2, 2], autoreset=autoreset)
    then, rewards, terminated, _, infos = step(envs, [3, 2, 2], ends=[0])
    assert then["grid"][1:].tolist() == [[[1.0, 1.0]]] * 2
    assert infos["failed"].tolist() == [True, False, False]
    assert np.isnan(rewards[0])
    assert rewards[1:].tolist() == [1.0, 1.0]
    assert not terminated.any()
    assert "grid: shape (1, 3) beside observations with shape (1, 2)" in errors(infos)[0]
    then, *_, infos = step(envs, [2, 2, 2])
    assert then["word"][1:] == ("go", "go")
    if autoreset == "disabled":
        assert isinstance(infos["errors"][0], EpisodeOver)
    else:
        assert "failed" not in infos
        assert (then["word"][0], step(envs, [2, 2, 2])[0]["word"][0]) == ("begin", "go")


@BEGINNING
def test_an_episode_that_begins_by_itself_in_another_shape_is_given_up_and_the_others_go_on(begun, autoreset):
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
    assert "grid: shape (1, 3) beside observations with shape (1, 2)" in errors(infos)[0]
    then, rewards, *_, infos = step(envs, [2, 2, 2])
    assert "failed" not in infos
    assert (then["word"], rewards.tolist()) == (("begin", "go", "go"), [0.0, 1.0, 1.0])


@BEGINNING
def test_of_several_that_begin_only_those_fail_that_do_not_fit_beside_who_steps(begun, autoreset):
    envs = begun([2, 2, [2, 3], [2, 3], [2, 2], [2, RAISES, 2]], autoreset=autoreset)
    then, *_, infos = step(envs, [2] * 6, ends=[2, 3, 4, 5])
    if autoreset == "next_step":
        then, *_, infos = step(envs, [2] * 6)
    assert {row: said[:20] for row, said in errors(infos).items()} == {
        2: "grid: shape (1, 3) b",
        3: "grid: shape (1, 3) b",
        5: "no level",
    }
    assert (then["word"][0], then["word"][1], then["word"][4]) == ("go", "go", "begin")


@BEGINNING
def test_an_episode_that_cannot_begin_keeps_its_own_error_where_no_other_fits_either(begun, autoreset):
    envs = begun([2, [2, 3], [2, RAISES]], autoreset=autoreset)
    *_, infos = step(envs, [2, 2, 2], ends=[1, 2])
    if autoreset == "next_step":
        *_, infos = step(envs, [2, 2, 2])
    assert errors(infos)[2] == "no level"
    assert "shape (1, 3) beside observations with shape (1, 2)" in errors(infos)[1]


@BEGINNING
def test_episodes_that_begin_together_may_all_have_another_shape(begun, autoreset):
    envs = begun([[2, 3], [2, 3]], autoreset=autoreset)
    then, *_, infos = step(envs, [2, 2], ends=[0, 1])
    if autoreset == "same_step":
        assert infos["final_obs"][1]["grid"].tolist() == [[1.0, 1.0]]
    else:
        then, *_, infos = step(envs, [2, 2])
    assert "failed" not in infos
    assert (then["grid"].shape, then["word"]) == ((2, 1, 3), ("begin", "begin"))


@BEGINNING
def test_an_environment_alone_whose_observation_is_no_array_begins_again(begun, autoreset):
    envs = begun([2], autoreset=autoreset)
    _, rewards, terminated, _, infos = step(envs, [NOT_NUMBERS], ends=[0])
    assert (np.isnan(rewards[0]), terminated[0]) == (True, False)
    assert "grid: [[1.0], [1.0, 2.0]] is not the numbers of an array" in errors(infos)[0]
    then, *_, infos = step(envs, [2])
    assert (then["word"], "failed" in infos) == (("begin",), False)


def test_the_only_one_whose_episode_goes_on_may_fail_beside_others_that_are_over(begun):
    envs = begun([2, 2], autoreset="disabled")
    step(envs, [2, 2], ends=[1])
    *_, infos = step(envs, [NOT_NUMBERS, 2])
    assert "is not the numbers of an array" in errors(infos)[0]
    assert isinstance(infos["errors"][1], EpisodeOver)
    with pytest.raises(EpisodeOver):
        step(envs, [2, 2])


def test_who_fails_has_no_say_in_the_shape(begun):
    envs = begun([2, 2, 2, 2, 2])
    then, rewards, *_, infos = step(envs, [RAISES, RAISES, RAISES, 3, 3])
    assert errors(infos) == dict.fromkeys(range(3), "no level")
    assert (then["grid"].shape, rewards[3:].tolist()) == ((5, 1, 3), [1.0, 1.0])


def test_a_reset_tells_the_authors_error_and_not_the_shape_of_what_was_seen_before(begun):
    envs = begun([2, 2])
    then, infos = reset(envs, [RAISES, 5])
    assert errors(infos) == {0: "no level"}
    assert then["grid"][1].shape == (1, 5)


def test_environments_that_are_reset_to_other_shapes_are_refused_together_and_have_not_begun(begun):
    envs = begun([2, 2, 2], autoreset="disabled")
    with pytest.raises(EnvironmentFault, match=r"grid: shape \(1, 2\) beside observations with shape \(1, 3\)"):
        reset(envs, [3, 2, 3])
    with pytest.raises(EpisodeOver):
        step(envs, [2, 2, 2])
    assert reset(envs, [4, 4, 4])[0]["grid"].shape == (3, 1, 4)


@AUTORESETS
def test_a_session_whose_observations_have_another_shape_than_most_fails_alone(begun, autoreset):
    envs = begun([2] * 6, num_sessions=3, autoreset=autoreset)
    then, rewards, terminated, _, infos = step(envs, [3, 3, 2, 2, 2, 2], ends=[5])
    assert infos["failed"].tolist() == [True, True, False, False, False, False]
    assert "grid: shape (1, 3) in one session beside shape (1, 2) in others" in errors(infos)[1]
    assert np.isnan(rewards[:2]).all()
    assert rewards[2:].tolist() == [1.0] * 4
    assert terminated.tolist() == [False] * 5 + [True]
    then, *_, infos = step(envs, [2] * 6)
    assert set(errors(infos)) == ({5} if autoreset == "disabled" else set())
    assert then["word"][:5] == ("go",) * 5


def test_a_last_observation_of_another_shape_than_those_of_other_sessions_fails_alone(begun):
    envs = begun([2] * 3, num_sessions=3, autoreset="same_step")
    _, rewards, terminated, _, infos = step(envs, [2, 3, 2], ends=[0, 1, 2])
    assert set(errors(infos)) == {1}
    assert (rewards.tolist()[::2], terminated.tolist()) == ([1.0, 1.0], [True] * 3)
    assert infos["final_obs"][2]["grid"].tolist() == [[1.0, 1.0]]


def test_sessions_that_are_reset_to_other_shapes_are_named_and_may_be_heard_one_by_one(begun):
    envs = begun([2, 2, 2, 2], num_sessions=2)
    with pytest.raises(EnvironmentFault, match=r"grid: shape \(1, 3\) in one session beside shape \(1, 2\) in others"):
        reset(envs, [2, 2, 3, 3])
    envs.send({"size": np.array([2, 2, 3, 3]), "ends": np.zeros(4, dtype=bool)})
    answers = [envs.recv() for _ in range(2)]
    assert sorted(observations["grid"].shape for observations, *_ in answers) == [(2, 1, 2), (2, 1, 3)]
