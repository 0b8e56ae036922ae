"""Vector sessions of Gymnasium: they equal Gymnasium's own vectors, and single sessions."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from openenv.core.errors import EnvironmentFault
from openenv.envs.gymnasium_env import GymnasiumAction, GymnasiumEnv
from openenv.envs.gymnasium_env.server.app import app
from tests.envs.gymnasium_env.test_environment import NestedEnv

gymnasium.register("NestedVector-v0", entry_point=NestedEnv)
MODES = {"next_step": AutoresetMode.NEXT_STEP, "same_step": AutoresetMode.SAME_STEP}


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def leaves(value):
    """The arrays of an observation, in order."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
    return [np.asarray(part) for part in parts]


@pytest.mark.parametrize("autoreset", MODES)
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Blackjack-v1", "FrozenLake-v1"])
def test_a_vector_plays_what_gymnasiums_own_plays(url, env_id, autoreset):
    bare = SyncVectorEnv([lambda: gymnasium.make(env_id)] * 3, autoreset_mode=MODES[autoreset])
    bare.action_space.seed(1)
    with GymnasiumEnv(url).vector(3, autoreset=autoreset, options={"env_id": env_id}) as envs:
        observations, infos = envs.reset(seed=5)
        expected, expected_infos = bare.reset(seed=5)
        for _ in range(60):
            assert all(map(np.array_equal, leaves(observations), leaves(expected)))
            actions = bare.action_space.sample()
            observations, rewards, terminated, truncated, infos = envs.step(actions)
            expected, *expected_rest, expected_infos = bare.step(actions)
            assert all(map(np.array_equal, (rewards, terminated, truncated), expected_rest))

        assert ("prob" in infos["info"][0]) == ("prob" in expected_infos)


def test_an_environment_of_a_vector_plays_what_a_session_plays(url):
    with GymnasiumEnv(url).vector(2, options={"env_id": "Taxi-v4"}) as envs, GymnasiumEnv(url) as env:
        observations, infos = envs.reset(seed=[3, 4])
        for _ in range(5):
            observations, _, _, _, infos = envs.step(np.array([0, 1]))
        env.reset(seed=4, env_id="Taxi-v4")
        for _ in range(5):
            result = env.step(GymnasiumAction(value=1))

        assert observations[1] == result.observation.value
        assert infos["info"][1] == result.observation.metadata["info"]


def test_the_spaces_are_those_of_gymnasium(url):
    with GymnasiumEnv(url).vector(2, options={"env_id": "Pendulum-v1"}) as envs:
        assert envs.single_action_space == gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)
        assert envs.single_observation_space.shape == (3,)
    with GymnasiumEnv(url).vector(2, options={"env_id": "Blackjack-v1"}) as envs:
        assert envs.single_action_space == gymnasium.spaces.Discrete(2)
        assert list(envs.single_observation_space) == ["0", "1", "2"]


def test_nested_spaces_have_a_column_for_each_part(url):
    with GymnasiumEnv(url).vector(2, options={"env_id": "NestedVector-v0"}) as envs:
        observations, infos = envs.reset(seed=1)

        assert sorted(observations) == ["0", "1.flags", "1.level", "1.move", "1.push"]
        assert observations["1.push"].shape == (2, 2)
        assert infos["info"][0] == {"far": None}


@pytest.mark.parametrize(
    ("env_id", "actions", "message"),
    [
        ("CartPole-v1", np.array([0, 2]), r"value=2 is not in the action space Discrete\(2\)"),
        ("CartPole-v1", np.array([0.0, 0.5]), "value=0.5"),
        ("Pendulum-v1", np.array([[0.5], [2.5]]), "Box"),
        ("Pendulum-v1", np.array([[0.5], [np.nan]]), "Box"),
    ],
)
def test_an_action_outside_the_space_fails_its_environment_alone(url, env_id, actions, message):
    with GymnasiumEnv(url).vector(2, options={"env_id": env_id}) as envs:
        before, _ = envs.reset(seed=1)
        observations, rewards, _, _, infos = envs.step(actions)

        assert infos["failed"].tolist() == [env_id == "CartPole-v1" and actions.dtype.kind == "f", True]
        with pytest.raises(EnvironmentFault, match=message):
            raise infos["errors"][1]
        assert np.array_equal(observations[1], before[1])
        assert np.isnan(rewards[1])


def test_a_reset_with_a_wrong_keyword_fails_and_the_episodes_go_on(url):
    with GymnasiumEnv(url).vector(2) as envs:
        envs.reset(seed=1)
        _, infos = envs.reset(options={"env_id": "CartPol-v1"})
        assert "Did you mean 'CartPole-v1'" in str(infos["errors"][0])


def test_environments_of_different_spaces_do_not_stack(url):
    with GymnasiumEnv(url).vector(2) as envs:
        with pytest.raises(EnvironmentFault, match="of different spaces do not stack"):
            envs.reset(options={"env_id": "Pendulum-v1", "reset_mask": [True, False]})

        observations, *_ = envs.step(np.array([0, 1]))
        assert observations.shape == (2, 4)
