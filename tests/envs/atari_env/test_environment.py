"""Atari games behind a server: every game, seeds, exact copies, observations, limits and errors."""

from random import Random

import numpy as np
import pytest

from tests.envs.extras import require_extra

require_extra("ale_py", "atari")

import ale_py
from ale_py import roms

from openenv.core.errors import EnvironmentFault
from openenv.envs.atari_env import AtariAction, AtariEnv
from openenv.envs.atari_env.server.app import app, program
from openenv.envs.atari_env.server.choice import AtariChoice, tasks
from openenv.envs.atari_env.server.emulator import Emulator
from openenv.envs.atari_env.server.environment import AtariEnvironment
from openenv.evaluation.replay import read_recording
from openenv.hosting.local_process import LocalServer

STARTS_AT_RANDOM = ("berzerk", "double_dunk", "tetris")
"""Games whose start depends on the seed."""


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def played(env, rng, num_steps, start=()):
    """The observations of random steps. start: the number of actions, where no observation has named them yet."""
    seen = []
    for _ in range(num_steps):
        legal = seen[-1].legal_actions if seen else start
        result = env.step(AtariAction(action_id=rng.choice(legal)))
        seen.append(result.observation)
        if result.done:
            break
    return seen


def differences(some, others):
    """The places of observations that are not equal."""
    assert len(some) == len(others)
    return [number for number, (one, other) in enumerate(zip(some, others, strict=True)) if not is_same(one, other)]


def is_same(one, other):
    first, second = dict(one), dict(other)
    return np.array_equal(first.pop("screen"), second.pop("screen")) and first == second


def test_all_games_for_one_player_reset_and_step():
    env = AtariEnvironment()
    for number, keywords in enumerate(tasks().values()):
        first = env.reset(seed=number, **keywords)
        seen = env.step(AtariAction(action_id=first.legal_actions[-1]))

        assert (210 <= len(seen.screen) <= 250, seen.screen.shape[1:]) == (True, (160, 3))
        assert set(first.metadata["legal_action_names"]) <= set(ale_py.Action.__members__)
        assert seen.episode_frame_number == first.episode_frame_number + 4
        assert (first.reward, type(seen.reward), seen.truncated) == (None, float, False)

    assert len(tasks()) == 104
    assert not {"combat", "joust", "maze_craze", "warlords"} & tasks().keys()


def test_an_episode_is_the_one_of_the_bare_library(url):
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.25)
    ale.setInt("random_seed", 7)
    ale.loadROM(roms.get_rom_path("seaquest"))
    ale.reset_game()
    joystick, rng = ale.getMinimalActionSet(), Random(0)
    with AtariEnv(url) as env:
        seen = env.reset(seed=7, game_name="seaquest").observation
        for _ in range(60):
            assert np.array_equal(seen.screen, ale.getScreenRGB())
            assert seen.lives == ale.lives()
            action = rng.choice(seen.legal_actions)
            expected = sum(ale.act(joystick[action]) for _ in range(4))
            seen = env.step(AtariAction(action_id=action)).observation
            assert seen.reward == expected


@pytest.mark.parametrize("game", ["pong", *STARTS_AT_RANDOM])
def test_equal_seeds_give_equal_episodes_beside_others_and_in_a_used_session(url, game):
    with AtariEnv(url) as env, AtariEnv(url) as other:
        episodes = []
        for seed in (3, 4, 3):
            first = env.reset(seed=seed, game_name=game).observation
            other.reset(seed=seed + 1, game_name="breakout")
            rng, seen = Random(1), [first]
            for _ in range(4):
                seen += played(env, rng, 10, first.legal_actions)
                other.step(AtariAction(action_id=1))
            episodes.append(seen)

    assert differences(episodes[0][1:], episodes[2][1:]) == []
    assert differences(episodes[0][1:], episodes[1][1:])


def test_a_reset_without_a_seed_names_one_that_repeats_the_episode(url):
    with AtariEnv(url) as env:
        first = env.reset().observation
        seen = played(env, Random(2), 30, first.legal_actions)
        env.reset(seed=first.metadata["seed"])

        assert differences(seen, played(env, Random(2), 30, first.legal_actions)) == []
        assert env.reset().observation.metadata["seed"] != first.metadata["seed"]


def test_twenty_episodes_end_with_their_game_or_at_the_limit(url):
    with AtariEnv(url) as env:
        for number in range(20):
            game = ("breakout", "pong", "space_invaders", "ms_pacman")[number % 4]
            result = env.reset(seed=number, game_name=game, obs_type="ram", max_steps=150)
            rng, steps = Random(number), 0
            while not result.done:
                result = env.step(AtariAction(action_id=rng.choice(result.observation.legal_actions)))
                steps += 1

            assert steps <= 150
            assert result.observation.truncated == (steps == 150)
            assert (result.observation.legal_actions, result.observation.metadata["legal_action_names"]) == ([], [])
            assert result.observation.episode_frame_number <= 4 * steps == 4 * env.state().step_count


@pytest.mark.parametrize(("obs_type", "shape"), [("rgb", (210, 160, 3)), ("grayscale", (210, 160)), ("ram", (128,))])
def test_the_screen_is_what_the_type_of_observation_declares(url, obs_type, shape):
    with AtariEnv(url) as env:
        screen = env.reset(seed=1, obs_type=obs_type).observation.screen

    assert (screen.shape, screen.dtype, screen.max() > 100) == (shape, np.uint8, True)


def test_an_observation_stays_what_it_was_after_further_steps():
    env = AtariEnvironment()
    env.reset(seed=1)
    before = env.step(AtariAction(action_id=2)).screen
    kept = before.copy()
    for _ in range(5):
        env.step(AtariAction(action_id=3))

    assert np.array_equal(before, kept)


@pytest.mark.parametrize("probability", [0.0, 0.25, 0.9, 1.0])
@pytest.mark.parametrize("frameskip", [1, 4])
@pytest.mark.parametrize("game", ["breakout", *STARTS_AT_RANDOM])
def test_equal_actions_after_a_restore_give_equal_futures_though_frames_repeat_actions(game, frameskip, probability):
    choice = AtariChoice(game_name=game, frameskip=frameskip, repeat_action_probability=probability)
    original, other = Emulator(choice, 7), Emulator(choice, 8)
    rng, actions = Random(f"{game} {frameskip} {probability}"), range(len(original.action_names))
    for emulator in (original, other):
        for _ in range(25):
            emulator.step(rng.choice(actions))
    other.restore(original.copy())

    for _ in range(25):
        action = rng.choice(actions)
        assert original.step(action) == other.step(action)
        assert np.array_equal(original.screen(), other.screen())
        assert np.array_equal(original.ale.getRAM(), other.ale.getRAM())


def test_a_saved_episode_is_restored_and_forked(url):
    with AtariEnv(url) as env:
        env.reset(seed=5, game_name="boxing", max_steps=60)
        played(env, Random(1), 20, range(18))
        token = env.save()
        (branch,) = env.fork(1)
        with branch:
            onward = played(env, Random(2), 50, range(18))
            env.reset(seed=6, game_name="pong")
            env.restore(token)

            assert differences(onward, played(env, Random(2), 50, range(18))) == []
            assert differences(onward, played(branch, Random(2), 50, range(18))) == []
            assert (len(onward), onward[-1].truncated) == (40, True)
            assert (env.state().game_name, env.state().step_count, branch.state().step_count) == ("boxing", 60, 60)


def test_save_and_step_before_a_reset_are_errors():
    env = AtariEnvironment()
    for verb in (env.save_state, lambda: env.step(AtariAction(action_id=0))):
        with pytest.raises(ValueError, match=r"Call reset\(\) first"):
            verb()


def test_mode_and_difficulty_change_the_game_and_another_game_has_its_own(module_serving):
    url = module_serving(program.build(game_name="freeway", mode=3, difficulty=1))
    with AtariEnv(url) as env:
        first = env.reset(seed=1).observation
        state = env.state()
        usual = env.reset(seed=1, mode=0, difficulty=0).observation
        other = env.reset(seed=1, game_name="pong").observation

        assert (state.mode, state.difficulty) == (3, 1)
        assert (first.metadata["available_modes"], first.metadata["available_difficulties"]) == (
            list(range(8)), [0, 1],
        )  # fmt: skip
        assert not np.array_equal(first.screen, usual.screen)
        assert (env.state().mode, other.metadata["game_name"]) == (None, "pong")


def test_the_full_action_space_has_eighteen_actions(url):
    with AtariEnv(url) as env:
        names = env.reset(seed=1, full_action_space=True).observation.metadata["legal_action_names"]
        env.step(AtariAction(action_id=17))

        assert (len(names), names[0], names[17]) == (18, "NOOP", "DOWNLEFTFIRE")
        assert env.state().full_action_space


def test_a_limit_of_frames_truncates(url):
    with AtariEnv(url) as env:
        env.reset(seed=1, frameskip=5, max_frames=12)
        results = [env.step(AtariAction(action_id=0)) for _ in range(3)]

    assert [result.done for result in results] == [False, False, True]
    assert (results[-1].observation.truncated, results[-1].observation.episode_frame_number) == (True, 12)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"game_name": "pang"}, r"game_name='pang' is not among .*Did you mean 'pong'"),
        ({"game_name": "combat"}, "game_name='combat' is not among"),
        ({"game_name": "../roms/pong"}, "game_name='../roms/pong' is not among"),
        ({"game_name": ["pong"]}, r"game_name=\['pong'\] is not among"),
        ({"obs_type": "pixels"}, "obs_type='pixels' is not among rgb, grayscale, ram"),
        ({"frameskip": 0}, "frameskip=0: expected a whole number from 1 to 60"),
        ({"frameskip": True}, "frameskip=True"),
        ({"max_steps": 1.5}, "max_steps=1.5"),
        ({"max_frames": -1}, "max_frames=-1"),
        ({"repeat_action_probability": 1.5}, "repeat_action_probability=1.5: expected a number from 0 to 1"),
        ({"repeat_action_probability": "0.5"}, "repeat_action_probability='0.5'"),
        ({"full_action_space": 1}, "full_action_space=1: expected true or false"),
        ({"mode": 77}, "mode=77 is not among those of pong: 0, 1"),
        ({"difficulty": 9}, "difficulty=9 is not among those of pong: 0, 1, 2, 3"),
        ({"vector_options": {}}, "vector_options: only vector sessions"),
        ({"game": "pong"}, "'game' is not known. Did you mean 'game_name'"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field_and_the_episode_goes_on(url, keywords, message):
    with AtariEnv(url) as env:
        env.reset(seed=1)
        env.step(AtariAction(action_id=0))
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        assert env.step(AtariAction(action_id=0)).observation.episode_frame_number == 8


def test_a_wrong_action_is_an_error_that_lists_the_legal_ones_and_the_episode_goes_on(url):
    with AtariEnv(url) as env:
        env.reset(seed=1)
        with pytest.raises(
            EnvironmentFault, match=r"action_id=6 is not legal\. Legal: 0 \(NOOP\), 1 \(FIRE\), .*LEFTFIRE"
        ):
            env.step(AtariAction(action_id=6))

        assert env.step(AtariAction(action_id=5)).observation.episode_frame_number == 4
        assert env.state().step_count == 1


def test_environment_variables_set_what_is_played():
    environ = {"ATARI_GAME": "boxing", "ATARI_FULL_ACTION_SPACE": "True", "ATARI_MAX_STEPS": "9", "ATARI_MODE": "0"}

    assert program.settings(environ) == AtariChoice(game_name="boxing", full_action_space=True, max_steps=9, mode=0)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"ATARI_FRAMESKIP": "x"}, "frameskip='x'"),
        ({"ATARI_FRAMESKIP": "0"}, "frameskip=0: expected a whole number from 1 to 60"),
        ({"ATARI_FULL_ACTION_SPACE": "maybe"}, "full_action_space='maybe'"),
    ],
)
def test_a_wrong_setting_fails_at_start(environ, message):
    with pytest.raises(ValueError, match=message):
        program.settings(environ)


def test_a_recording_names_the_game_by_the_option_of_the_server(tmp_path):
    options = ["--game", "freeway", "--obs-type", "ram", "--record-dir", str(tmp_path)]
    with LocalServer("openenv.envs.atari_env.server.app", options) as server, AtariEnv(server.base_url) as env:
        env.reset(seed=1)

    recorded = read_recording(next(tmp_path.glob("*.jsonl"))).options
    assert recorded[recorded.index("--game") + 1] == "freeway"
