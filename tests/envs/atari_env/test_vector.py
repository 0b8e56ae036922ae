"""Vector sessions of Atari games: ALE's own vector, with the episodes that single sessions play."""

from random import Random

import numpy as np
import pytest

from tests.envs.extras import require_extra

require_extra("ale_py", "atari")

from openenv.core.errors import EnvironmentFault
from openenv.envs.atari_env import AtariAction, AtariEnv
from openenv.envs.atari_env.server.app import app, program
from openenv.envs.atari_env.server.environment import AtariEnvironment

NUM_ENVS = 3


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


@pytest.fixture(scope="module")
def breakout_url(module_serving):
    return module_serving(program.build(game_name="breakout"))


def opened(url, **keywords):
    return AtariEnv(url).vector(NUM_ENVS, **keywords)


def singles(game):
    """Games of one environment each, reset with seeds from 7."""
    envs = [AtariEnvironment(game_name=game) for _ in range(NUM_ENVS)]
    return envs, [env.reset(seed=7 + number) for number, env in enumerate(envs)]


@pytest.mark.parametrize("game", ["seaquest", "double_dunk", "space_war"])
def test_equal_seeds_give_the_episodes_of_single_sessions(url, game):
    envs, firsts = singles(game)
    rng = Random(0)
    with opened(url, options={"game_name": game}) as vector:
        observations, _ = vector.reset(seed=7)
        rows = firsts
        for _ in range(40):
            for row, seen in enumerate(rows):
                assert np.array_equal(observations["screen"][row], seen.screen)
                assert observations["lives"][row] == seen.lives
                assert observations["episode_frame_number"][row] == seen.episode_frame_number
            actions = [rng.choice(seen.legal_actions) for seen in rows]
            observations, rewards, terminated, truncated, _ = vector.step(np.array(actions))
            rows = [env.step(AtariAction(action_id=one)) for env, one in zip(envs, actions, strict=True)]
            assert rewards.tolist() == [seen.reward for seen in rows]
            assert not terminated.any()
            assert not truncated.any()


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_an_ended_episode_is_followed_by_another(breakout_url, autoreset):
    with opened(breakout_url, autoreset=autoreset, options={"max_steps": 5}) as vector:
        vector.reset(seed=7)
        steps = [vector.step(np.ones(NUM_ENVS, np.int64)) for _ in range(12)]

    truncated = [number for number, step in enumerate(steps) if step[3].all()]
    frames = [step[0]["episode_frame_number"].tolist() for step in steps]
    if autoreset == "next_step":
        assert truncated == [4, 10]
        assert [row[0] for row in frames] == [4, 8, 12, 16, 20, 0, 4, 8, 12, 16, 20, 0]
        assert steps[5][1].tolist() == [0, 0, 0]
    else:
        assert truncated == [4, 9]
        assert [row[0] for row in frames] == [4, 8, 12, 16, 0, 4, 8, 12, 16, 0, 4, 8]
        assert steps[4][4]["final_obs"][1]["episode_frame_number"] == 20


def test_episodes_that_end_at_different_times_begin_anew_alone(breakout_url):
    """Environments that stand still die first: nothing is served for them."""
    with opened(breakout_url, options={"max_frames": 2000}) as vector:
        vector.reset(seed=7)
        presses = np.array([[1, 0, 1], [1, 0, 2]])
        ended_at = [None] * NUM_ENVS
        for number in range(300):
            observations, rewards, terminated, _, infos = vector.step(presses[number % 2])
            assert "errors" not in infos
            for row in range(NUM_ENVS):
                if ended_at[row] is not None and number == ended_at[row] + 1:
                    assert observations["episode_frame_number"][row] == 0
                    assert (rewards[row], terminated[row], observations["lives"][row]) == (0, False, 5)
                if terminated[row] and ended_at[row] is None:
                    ended_at[row] = number

    assert ended_at[1] is None
    assert None not in (ended_at[0], ended_at[2])
    assert ended_at[0] != ended_at[2]


def test_equal_seeds_and_actions_give_equal_episodes_through_automatic_resets(breakout_url):
    def episodes():
        with opened(breakout_url, autoreset="same_step") as vector:
            rng = np.random.default_rng(0)
            seen = [vector.reset(seed=7)[0]["screen"]]
            for _ in range(250):
                observations, _, terminated, _, _ = vector.step(rng.integers(0, 4, NUM_ENVS))
                seen.append(observations["screen"].sum(axis=(1, 2, 3)) * (1 + terminated))
        return seen

    first, second = episodes(), episodes()
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


def test_some_environments_are_reset_alone(url):
    with opened(url, autoreset="disabled") as vector:
        vector.reset(seed=7)
        vector.step(np.zeros(NUM_ENVS, np.int64))
        observations, infos = vector.reset(seed=9, options={"reset_mask": np.array([False, True, False])})
        again, *_ = vector.step(np.zeros(NUM_ENVS, np.int64))

    assert (infos["env_ids"].tolist(), observations["episode_frame_number"].tolist()) == ([1], [0])
    assert again["episode_frame_number"].tolist() == [8, 4, 8]


def test_vector_options_prepare_frames_as_ale_does(url):
    options = {"obs_type": "grayscale", "vector_options": {"stack_num": 4, "img_height": 84, "img_width": 84}}
    with opened(url, options=options) as vector:
        observations, _ = vector.reset(seed=1)

        assert vector.single_observation_space["screen"].shape == (4, 84, 84)
        assert observations["screen"].dtype == np.uint8


def test_a_wrong_action_is_an_error_and_nothing_is_stepped(url):
    with opened(url) as vector:
        vector.reset(seed=7)
        with pytest.raises(EnvironmentFault, match=r"action_id=6 is not legal\. Legal: 0 \(NOOP\)"):
            vector.step(np.array([0, 6, 0]))

        assert vector.step(np.zeros(NUM_ENVS, np.int64))[0]["episode_frame_number"].tolist() == [4, 4, 4]


def test_environments_whose_episode_goes_on_are_stepped_together(url):
    with opened(url) as vector:
        vector.reset(seed=7)
        vector.send(np.zeros(2, np.int64), [0, 1])
        with pytest.raises(EnvironmentFault, match="ALE steps all 3 environments of a session at once"):
            vector.recv()
    with opened(url, num_sessions=3) as vector:
        vector.reset(seed=7)
        vector.send(np.zeros(2, np.int64), [0, 2])
        received = [vector.recv()[4]["env_ids"].tolist() for _ in range(2)]

    assert sorted(received) == [[0], [2]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"obs_type": "ram"}, "obs_type='ram': ALE's vector cannot play it. Start the server with it"),
        ({"mode": 1}, "mode=1: ALE's vector"),
        ({"game_name": "pang"}, "game_name='pang' is not among"),
        ({"vector_options": 4}, "vector_options=4: expected an object"),
        ({"vector_options": {"stack_num": 0}}, "vector_options.stack_num=0: expected a whole number from 1 to 16"),
        ({"vector_options": {"maxpool": 1}}, "vector_options.maxpool=1: expected true or false"),
        ({"vector_options": {"num_threads": 64}}, "vector_options.num_threads is not known. Known: episodic_life"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field(url, options, message):
    with opened(url) as vector:
        vector.reset(seed=1)
        with pytest.raises(EnvironmentFault, match=message):
            vector.reset(options=options)

        assert vector.step(np.zeros(NUM_ENVS, np.int64))[0]["episode_frame_number"].tolist() == [4, 4, 4]


def test_a_server_of_what_ales_vector_cannot_play_steps_games_in_turn(module_serving):
    url = module_serving(program.build(game_name="freeway", obs_type="ram", mode=3))
    single = AtariEnvironment(game_name="freeway", obs_type="ram", mode=3)
    single.reset(seed=8)
    with opened(url) as vector:
        vector.reset(seed=7)
        for _ in range(5):
            observations, *_ = vector.step(np.array([2, 1, 0]))
            seen = single.step(AtariAction(action_id=1))

    assert observations["screen"].shape == (NUM_ENVS, 128)
    assert np.array_equal(observations["screen"][1], seen.screen)
