"""Known players and exact optima of Gymnasium's environments."""

from random import Random

import pytest

from openenv.envs.catalog import load
from openenv.envs.gymnasium_env.server.environment import GymnasiumEnvironment
from openenv.envs.gymnasium_env.solvers.toy_text import best_play
from openenv.envs.measured import steps_per_second


def returns(task, num_episodes):
    env, rng = GymnasiumEnvironment(), Random(0)
    for seed in range(num_episodes):
        observation, total = env.reset(seed=seed, **task.reset), 0.0
        while not observation.done:
            observation = env.step(task.heuristic(observation, rng))
            total += observation.reward
        yield total


def test_the_known_players_reach_what_is_known_of_best_play():
    measured = load("gymnasium").load_measured()

    assert set(returns(measured["CartPole-v1"], 20)) == {measured["CartPole-v1"].best_return}
    lake = list(returns(measured["FrozenLake-v1"], 1000))
    assert sum(lake) / len(lake) == pytest.approx(measured["FrozenLake-v1"].best_return, abs=4 * 0.436 / 1000**0.5)


def test_every_measured_task_can_be_played_bare():
    for name, task in load("gymnasium").load_measured().items():
        assert steps_per_second(task.bare(**task.reset), 0.01) > 0, name


@pytest.mark.parametrize(
    ("env_id", "options", "mean"),
    [
        ("FrozenLake-v1", {"is_slippery": False}, 1.0),
        ("FrozenLake-v1", {"desc": ["SFG"], "is_slippery": False}, 1.0),
        ("FrozenLake-v1", {"desc": ["SHG"], "is_slippery": False}, 0.0),
        ("CliffWalking-v1", {}, -13.0),
        ("Taxi-v4", {}, 7.93),
    ],
)
def test_best_play_is_exact(env_id, options, mean):
    assert best_play(env_id, options)[0] == pytest.approx(mean, abs=1e-9)


def test_the_limit_of_steps_counts():
    in_time = {"max_episode_steps": 2, "desc": ["SFG"], "is_slippery": False}

    assert best_play("FrozenLake-v1", in_time)[0] == 1.0
    assert best_play("FrozenLake-v1", {**in_time, "max_episode_steps": 1})[0] == 0.0


def test_an_environment_without_a_table_is_refused():
    with pytest.raises(ValueError, match="publishes no transitions"):
        best_play("CartPole-v1")
