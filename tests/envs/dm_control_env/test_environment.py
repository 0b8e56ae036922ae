"""The DeepMind Control Suite behind a server: every task, seeds, exact copies, frames and errors."""

import base64
import io
import math
from random import Random

import numpy as np
import pytest

from tests.envs.extras import require_extra

require_extra("dm_control", "dm_control")

from openenv.core.errors import EnvironmentFault, OpenEnvError
from openenv.envs.catalog import load
from openenv.envs.dm_control_env import DMControlAction, DMControlEnv, DMControlObservation, DMControlText
from openenv.envs.dm_control_env.server.app import app, program
from openenv.envs.dm_control_env.server.choice import TaskChoice, random_state, tasks
from openenv.envs.dm_control_env.server.environment import DMControlEnvironment
from openenv.envs.dm_control_env.server.episode import Episode
from openenv.envs.measured import steps_per_second

TEXT = DMControlText(DMControlAction, DMControlObservation)
COPIED = [
    "cartpole-swingup", "cheetah-run", "finger-turn_hard", "fish-swim", "humanoid-walk", "lqr-lqr_2_1",
    "manipulator-bring_ball", "point_mass-hard", "quadruped-escape", "reacher-easy", "stacker-stack_2",
    "swimmer-swimmer6",
]  # fmt: skip
"""Tasks that change their model as well as their data, and others."""


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def played(env, rng, first, limit=20):
    """The results of up to `limit` random steps."""
    results, seen = [], first
    while not seen.done and len(results) < limit:
        results.append(env.step(TEXT.random_reply(seen, rng)[1]))
        seen = results[-1].observation
    return results


def test_every_task_of_the_suite_plays():
    env = DMControlEnvironment()
    names = tasks()
    for keywords in names.values():
        first = env.reset(seed=1, **keywords)
        seen = env.step(TEXT.random_reply(first, Random(1))[1])
        assert {name: len(part) for name, part in seen.observations.items()} == {
            name: math.prod(space["shape"]) for name, space in first.metadata["observation_space"]["spaces"].items()
        }
    env.close()

    assert len(names) == 51
    assert len({keywords["domain_name"] for keywords in names.values()}) == 19


def test_an_episode_is_the_one_of_dm_control(url):
    from dm_control import suite

    bare = suite.load("walker", "walk", task_kwargs={"random": 7})
    expected = bare.reset()
    with DMControlEnv(url) as env:
        seen = env.reset(seed=7, domain_name="walker", task_name="walk").observation
        for number in range(20):
            assert seen.observations == {name: np.ravel(part).tolist() for name, part in expected.observation.items()}
            assert seen.reward == expected.reward
            controls = np.full(6, math.sin(number))
            expected = bare.step(controls)
            seen = env.step(DMControlAction(values=controls)).observation


@pytest.mark.parametrize("task", COPIED)
def test_equal_seeds_give_equal_episodes_also_in_a_used_session(url, task):
    with DMControlEnv(url) as env:
        episodes = [played(env, Random(5), env.reset(seed=seed, **tasks()[task]).observation) for seed in (7, 8, 7)]

    assert episodes[0] == episodes[2]
    assert episodes[0] != episodes[1]


@pytest.mark.parametrize("task", COPIED)
def test_equal_actions_after_a_fork_give_equal_futures(url, task):
    with DMControlEnv(url) as env:
        first = env.reset(seed=11, **tasks()[task]).observation
        last = played(env, Random(1), first, limit=3)[-1].observation
        (branch,) = env.fork(1)
        with branch:
            assert branch.state() == env.state()
            futures = [played(player, Random(2), last) for player in (env, branch)]

    assert futures[0] == futures[1]


def test_a_copy_keeps_the_limit_of_time():
    env, other = DMControlEnvironment(), DMControlEnvironment()
    env.reset(seed=1)
    step = DMControlAction(values=[0.0])
    for _ in range(999):
        assert not env.step(step).done
    other.load_state(env.save_state())
    seen = other.step(step)

    assert (seen.done, seen.truncated, seen.discount) == (True, True, 1.0)


def test_a_copy_has_the_random_numbers_of_the_task():
    choice = TaskChoice(domain_name="fish", task_name="swim")
    episode = Episode(choice, choice.make(5), {}, "e")
    episode.env.reset()
    copy = Episode.load(episode.save())

    assert copy.env.task.random.rand() == episode.env.task.random.rand()


def test_an_episode_beside_another_task_is_the_same(url):
    with DMControlEnv(url) as env, DMControlEnv(url) as other:
        alone = played(env, Random(3), env.reset(seed=5, **tasks()["fish-swim"]).observation)
        first = env.reset(seed=5, **tasks()["fish-swim"]).observation
        rng, beside = Random(3), []
        other_seen = other.reset(seed=1, **tasks()["swimmer-swimmer6"]).observation
        while len(beside) < len(alone):
            beside += played(env, rng, beside[-1].observation if beside else first, limit=1)
            played(other, Random(1), other_seen, limit=2)

    assert beside == alone


def test_twenty_episodes_end_at_the_limit_of_steps(url):
    with DMControlEnv(url) as env:
        for seed in range(20):
            results = played(env, Random(seed), env.reset(seed=seed, max_steps=5).observation)
            assert [result.done for result in results] == [False] * 4 + [True]
            assert results[-1].observation.truncated
            assert all(0.0 <= result.reward <= 1.0 for result in results)


def test_an_end_of_the_task_itself_is_not_truncated():
    env = DMControlEnvironment()
    seen = env.reset(seed=1, domain_name="lqr", task_name="lqr_2_1")
    while not seen.done:  # after some thousand steps the masses stand still
        position, speed = (seen.observations[name][0] for name in ("position", "velocity"))
        seen = env.step(DMControlAction(values=[-5 * position - 5 * speed]))

    assert (seen.discount, seen.truncated) == (0.0, False)


def test_frames_are_drawn_in_the_given_size_and_are_equal_for_equal_seeds(url):
    from PIL import Image

    keywords = {"domain_name": "reacher", "task_name": "hard", "render": True, "width": 64, "height": 48}
    with DMControlEnv(url) as env, DMControlEnv(url) as other:
        frames = [env.reset(seed=seed, **keywords).observation.pixels for seed in (1, 2, 1)]
        beside = other.reset(seed=1, **keywords).observation.pixels
        (branch,) = env.fork(1)
        with branch:
            step = DMControlAction(values=[1.0, 1.0])
            stepped = [player.step(step).observation.pixels for player in (env, branch)]
        free = env.reset(seed=1, **keywords, camera_id=-1).observation.pixels
        without = env.reset(seed=1, **keywords | {"render": False}).observation.pixels

    assert frames[0] == frames[2] == beside
    assert frames[0] != frames[1]
    assert stepped[0] == stepped[1]
    assert np.asarray(Image.open(io.BytesIO(base64.b64decode(free)))).shape == (48, 64, 3)
    assert free != frames[0]
    assert without is None


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"domain_name": "cheeta"}, "Did you mean 'cheetah'"),
        ({"domain_name": "cheetah"}, "task_name='balance' is not among run"),
        ({"task_name": "../balance"}, "is not among balance, balance_sparse"),
        ({"domain_name": ["cartpole"]}, "is not among acrobot"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"render": "yes"}, "render='yes': expected true"),
        ({"width": 641}, "width=641: expected a whole number from 16 to 640"),
        ({"camera_id": 99}, "camera_id=99"),
        ({"render": True, "camera_id": 15}, "no frame can be drawn"),
        ({"level": 1}, "reset argument 'level' is not known"),
    ],
)
def test_a_wrong_reset_is_refused_and_the_episode_continues(url, keywords, message):
    with DMControlEnv(url) as env:
        env.reset(seed=1)
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        assert env.step(DMControlAction(values=[0.5])).done is False
        assert env.state().step_count == 1


@pytest.mark.parametrize("values", [[], [1.5], [0.0, 0.0], [float("nan")], [-2.0]])
def test_controls_outside_the_space_are_refused_with_the_space_and_the_episode_goes_on(url, values):
    with DMControlEnv(url) as env:
        env.reset(seed=1)
        with pytest.raises(OpenEnvError, match=r"expected 1 finite numbers from -1\.0|should be a valid number"):
            env.step(DMControlAction(values=values))

        assert env.state().step_count == 0


def test_a_step_and_a_copy_before_the_reset_are_refused():
    with pytest.raises(ValueError, match="step came before reset"):
        DMControlEnvironment().step(DMControlAction(values=[0.0]))
    with pytest.raises(ValueError, match="no episode to save"):
        DMControlEnvironment().save_state()


def test_a_large_seed_is_as_good_as_a_small_one():
    assert random_state(7).rand() == np.random.RandomState(7).rand()
    assert random_state(1 << 32).rand() != random_state(0).rand()


def test_the_text_names_the_parts_and_takes_numbers(url):
    with DMControlEnv(url) as env:
        first = env.reset(seed=1, domain_name="ball_in_cup", task_name="catch").observation

    assert TEXT.instructions(first) == (
        "Control the ball in cup. The task is: catch. Each line of a message is a measurement. "
        "Reply with 2 numbers from -1 to 1, such as 0.5 -0.5."
    )
    assert TEXT.describe(first).startswith("position: 0 0 ")
    assert TEXT.parse("0.5 -1", first) == DMControlAction(values=[0.5, -1.0])
    assert TEXT.parse("0.5", first) is None


def test_the_known_player_balances_the_pole():
    measured = load("dm_control").load_measured()
    env, task = DMControlEnvironment(), measured["cartpole-balance"]
    observation, total = env.reset(seed=3, **task.reset), 0.0
    while not observation.done:
        observation = env.step(task.heuristic(observation, Random(0)))
        total += observation.reward

    assert total > 999
    assert all(steps_per_second(task.bare(**task.reset), 0.01) > 0 for task in measured.values())


def test_a_wrong_setting_stops_the_server_before_it_listens():
    assert program.settings({"DM_CONTROL_DOMAIN": "fish", "DM_CONTROL_TASK": "swim"}) == TaskChoice(
        domain_name="fish", task_name="swim"
    )
    with pytest.raises(ValueError, match="task_name='balance' is not among upright, swim"):
        program.settings({"DM_CONTROL_DOMAIN": "fish"})
