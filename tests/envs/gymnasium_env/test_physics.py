"""Box2D, MuJoCo and frames behind a server: seeds, exact copies, arrays and images."""

import base64
import io
from random import Random

import gymnasium
import httpx
import numpy as np
import pytest

from openenv.core.env_server.runner.sync_vector import next_seed
from openenv.envs.gymnasium_env import GymnasiumAction, GymnasiumEnv, GymnasiumText
from openenv.envs.gymnasium_env.models import GymnasiumObservation
from openenv.envs.gymnasium_env.server.app import app
from openenv.envs.gymnasium_env.server.choice import family_of, tasks
from openenv.envs.gymnasium_env.server.environment import GymnasiumEnvironment
from tests.envs.extras import require_extra

require_extra("Box2D", "box2d")
require_extra("mujoco", "mujoco")

PHYSICS = [env_id for env_id in tasks() if family_of(env_id) != "light"]
DRAWN = ["CartPole-v1", "Blackjack-v1", "FrozenLake-v1", "Taxi-v4", "LunarLander-v3", "HalfCheetah-v5"]
"""One of each way to draw. LunarLander's sparks, and where the cheetah's camera looks, are part of the frames."""
TEXT = GymnasiumText(GymnasiumAction, GymnasiumObservation)


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def played(env, rng, first, limit):
    """The results of up to `limit` random steps."""
    results, seen = [], first
    while not seen.done and len(results) < limit:
        results.append(env.step(TEXT.random_reply(seen, rng)[1]))
        seen = results[-1].observation
    return results


def comparable(results):
    """All that is in observations, with lists in place of arrays."""
    return [result.observation.model_dump_json() for result in results]


def test_all_of_gymnasium_is_played(url):
    assert len(PHYSICS) == 16
    assert len(tasks()) == 27


@pytest.mark.parametrize("env_id", PHYSICS)
def test_equal_seeds_give_equal_episodes_also_in_a_used_session(url, env_id):
    limit = 4 if env_id.startswith("CarRacing") else 20
    with GymnasiumEnv(url) as env:
        episodes = [
            comparable(played(env, Random(5), env.reset(seed=seed, env_id=env_id).observation, limit))
            for seed in (7, 8, 7)
        ]

    assert episodes[0] == episodes[2]
    assert episodes[0] != episodes[1]


@pytest.mark.parametrize("env_id", PHYSICS)
def test_equal_actions_after_a_fork_give_equal_futures(url, env_id):
    limit = 4 if env_id.startswith("CarRacing") else 60
    with GymnasiumEnv(url) as env:
        first = env.reset(seed=11, env_id=env_id).observation
        last = played(env, Random(1), first, limit=3)[-1].observation
        (branch,) = env.fork(1)
        with branch:
            assert branch.state() == env.state()
            futures = [comparable(played(player, Random(2), last, limit)) for player in (env, branch)]

    assert futures[0] == futures[1]


def test_a_copy_of_mujoco_keeps_the_limit_of_steps(url):
    with GymnasiumEnv(url) as env:
        env.reset(seed=1, env_id="Reacher-v5", max_steps=4)
        step = GymnasiumAction(value=[0.1, 0.1])
        for _ in range(3):
            env.step(step)
        (branch,) = env.fork(1)
        with branch:
            assert branch.step(step).observation.truncated


def test_the_rewards_are_those_of_gymnasium(url):
    bare = gymnasium.make("Ant-v5")
    bare.reset(seed=3)
    bare.action_space.seed(3)
    with GymnasiumEnv(url) as env:
        env.reset(seed=3, env_id="Ant-v5")
        for _ in range(10):
            action = bare.action_space.sample()
            value, reward, *_ = bare.step(action)
            result = env.step(GymnasiumAction(value=action))

            assert np.array_equal(result.observation.value, value)
            assert result.reward == reward


@pytest.mark.parametrize("env_id", DRAWN)
def test_frames_of_equal_episodes_and_copies_are_equal(url, env_id):
    options = {"width": 64, "height": 64} if family_of(env_id) == "mujoco" else {}
    keywords = {"env_id": env_id, "env_options": options, "render": True}
    with GymnasiumEnv(url) as env:
        episodes = [comparable(played(env, Random(5), env.reset(seed=2, **keywords).observation, 3)) for _ in range(2)]
        last = env.reset(seed=3, **keywords).observation
        last = ([last] + [result.observation for result in played(env, Random(4), last, 2)])[-1]
        (branch,) = env.fork(1)
        with branch:
            futures = [comparable(played(player, Random(5), last, 3)) for player in (env, branch)]

    assert episodes[0] == episodes[1]
    assert futures[0] == futures[1]


def test_a_frame_is_a_png_file_of_what_gymnasium_draws(url):
    from PIL import Image

    bare = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    bare.reset(seed=1)
    with GymnasiumEnv(url) as env:
        seen = env.reset(seed=1, render=True).observation
        without = env.reset(seed=1).observation

    assert np.array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(seen.pixels)))), bare.render())
    assert without.pixels is None


def test_a_session_that_ends_leaves_pygame_to_the_others():
    import pygame

    env = GymnasiumEnvironment(render=True)
    env.reset(seed=1)
    env.close()

    assert pygame.display.get_init()


def test_images_and_long_vectors_arrive_as_arrays_and_are_lists_in_json(url):
    with GymnasiumEnv(url) as env:
        image = env.reset(seed=1, env_id="CarRacing-v3").observation
        body = env.reset(seed=1, env_id="Ant-v5").observation
        short = env.reset(seed=1, env_id="HalfCheetah-v5").observation

    assert (image.value.shape, image.value.dtype) == ((96, 96, 3), np.uint8)
    assert (body.value.shape, body.value.dtype) == ((105,), np.float64)
    assert isinstance(short.value, list)
    answer = httpx.post(f"{url}/reset", json={"seed": 1, "env_id": "CarRacing-v3"}).json()
    assert answer["observation"]["value"] == image.value.tolist()


def test_the_text_shows_images_as_images_and_the_frame_below_the_words(url):
    with GymnasiumEnv(url) as env:
        image = env.reset(seed=1, env_id="CarRacing-v3").observation
        frame = env.reset(seed=1, env_id="CartPole-v1", render=True).observation
        body = env.reset(seed=1, env_id="Ant-v5").observation

    assert [part["type"] for part in TEXT.describe(image)] == ["image"]
    assert [part["type"] for part in TEXT.describe(frame)] == ["text", "image"]
    assert len(TEXT.describe(body).split()) == 105


def test_an_option_of_mujoco_cannot_name_a_file(url):
    with GymnasiumEnv(url) as env:
        env.reset(seed=1, env_id="Ant-v5")
        with pytest.raises(Exception, match="a file can only be named where the server is started"):
            env.reset(env_id="Ant-v5", env_options={"xml_file": "/etc/passwd"})

        assert env.step(GymnasiumAction(value=[0.0] * 8)).done is False


def test_a_vector_of_mujoco_equals_gymnasiums_own(url):
    bare = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("HalfCheetah-v5", max_episode_steps=5)] * 3)
    bare.action_space.seed(1)
    with GymnasiumEnv(url).vector(3, options={"env_id": "HalfCheetah-v5", "max_steps": 5}) as envs:
        assert envs.action_space == bare.action_space
        assert np.array_equal(envs.reset(seed=5)[0], bare.reset(seed=5)[0])
        for _ in range(11):
            actions = bare.action_space.sample()
            *ours, infos = envs.step(actions)
            *expected, expected_infos = bare.step(actions)
            assert all(map(np.array_equal, ours, expected))

        speeds = [info["x_velocity"] for info in infos["info"]]
        assert speeds == expected_infos["x_velocity"].tolist()


def test_a_vector_of_box2d_begins_each_episode_in_a_new_world(url):
    with GymnasiumEnv(url).vector(1, options={"env_id": "BipedalWalker-v3", "max_steps": 3}) as envs:
        envs.reset(seed=5)
        for _ in range(4):
            observations, *_ = envs.step(np.zeros((1, 4), np.float32))
    with GymnasiumEnv(url) as env:
        first = env.reset(seed=next_seed(5), env_id="BipedalWalker-v3").observation

    assert observations[0].tolist() == pytest.approx(first.value, abs=0)


def test_a_vector_has_frames_as_one_array(url):
    with GymnasiumEnv(url).vector(2, options={"render": True}) as envs:
        observations, _ = envs.reset(seed=1)

    assert observations["pixels"].shape == (2, 400, 600, 3)
    assert observations["pixels"].dtype == np.uint8
    assert not np.array_equal(*observations["pixels"])
