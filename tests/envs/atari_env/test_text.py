"""What a language model is shown of Atari games, and the players that use the same numbers."""

import base64
import io
from random import Random

import numpy as np
import pytest

from tests.envs.extras import require_extra

require_extra("ale_py", "atari")

from openenv.envs.atari_env import AtariAction, AtariObservation, AtariText
from openenv.envs.atari_env.server.environment import AtariEnvironment
from openenv.envs.atari_env.text import POSITIONS, positions
from openenv.envs.catalog import load
from openenv.envs.measured import steps_per_second

TEXT = AtariText(AtariAction, AtariObservation)
COLOURS = {
    "pong": {"ball": (236, 236, 236), "you": (92, 186, 92), "other": (213, 130, 74)},
    "breakout": {"ball": (200, 72, 72)},
}
FIELDS = {"pong": slice(34, 194), "breakout": slice(93, 188)}
"""Rows of the frame without the score, the bricks and the paddle of the ball's colour."""


def middle(frame, game, colour):
    """x and y of the middle of the pixels of a colour; None if there are none, or more than a paddle has."""
    rows = FIELDS[game]
    ys, xs = np.nonzero((frame[rows, 8:152] == colour).all(-1))
    return (xs.mean() + 8, ys.mean() + rows.start) if 0 < len(xs) <= 64 else None


@pytest.mark.parametrize("game", COLOURS)
def test_positions_are_those_of_the_pixels_in_the_frame(game):
    frames, memory = AtariEnvironment(game_name=game), AtariEnvironment(game_name=game, obs_type="ram")
    rng, compared = Random(0), dict.fromkeys(COLOURS[game], 0)
    for env in (frames, memory):
        env.reset(seed=3)
    for _ in range(120):
        action = AtariAction(action_id=rng.choice((1, 2, 3)))
        seen, at = frames.step(action), positions(memory.step(action))
        for name, colour in COLOURS[game].items():
            found = middle(seen.screen, game, colour)
            for axis, pixel in zip("xy", found or (), strict=False):
                if f"{name} {axis}" in at and 40 < pixel < 180:
                    assert abs(at[f"{name} {axis}"] - pixel) <= 3
                    compared[name] += 1

    assert min(compared.values()) > 10


def test_a_frame_is_shown_as_an_image_with_the_lives():
    from PIL import Image

    first = AtariEnvironment(game_name="breakout").reset(seed=1)
    words, image = TEXT.describe(first)

    assert words["text"].strip() == "Lives 5."
    assert (image["type"], image["name"]) == ("image", "screen")
    png = Image.open(io.BytesIO(base64.b64decode(image["image"].partition(",")[2])))
    assert np.array_equal(np.asarray(png), first.screen)


def test_the_memory_of_a_known_game_is_shown_as_a_few_numbers():
    env = AtariEnvironment(game_name="pong", obs_type="ram")
    env.reset(seed=1)
    for _ in range(30):
        seen = env.step(AtariAction(action_id=2))

    assert TEXT.describe(seen).split()[::3] == ["Ball", "ball", "you", "other"]
    assert TEXT.instructions(seen).endswith("Reply with one of these: NOOP, FIRE, RIGHT, LEFT, RIGHTFIRE, LEFTFIRE.")


def test_the_memory_of_another_game_is_shown_as_its_bytes():
    first = AtariEnvironment(game_name="ms_pacman", obs_type="ram").reset(seed=1)

    address, byte = TEXT.describe(first).split(",")[0].split(": ")
    assert first.screen[int(address)] == int(byte)
    assert TEXT.describe(first).endswith(", lives 3.")
    assert TEXT.instructions(first).startswith("Play ms pacman.")


def test_replies_are_the_names_of_the_actions():
    first = AtariEnvironment(full_action_space=True).reset(seed=1)

    assert TEXT.parse("UPLEFTFIRE", first) == AtariAction(action_id=15)
    assert TEXT.parse("I press up", first) == AtariAction(action_id=2)
    assert TEXT.parse("jump", first) is None


@pytest.mark.parametrize("task", load("atari").measured)
def test_the_heuristic_of_a_measured_game_earns_more_than_random_play(task):
    env, rng, measured = AtariEnvironment(), Random(0), load("atari").load_measured()[task]

    def earned(choose, num_steps=500):
        seen, total = env.reset(seed=5, **measured.reset), 0.0
        for _ in range(num_steps):
            if seen.done:
                break
            seen = env.step(choose(seen, rng))
            total += seen.reward
        return total

    assert earned(measured.heuristic) > earned(lambda seen, rng: AtariAction(action_id=rng.choice(seen.legal_actions)))
    assert steps_per_second(measured.bare(**measured.reset), 0.05) > 0
    assert task in POSITIONS
