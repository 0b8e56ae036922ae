"""The text interface of Gymnasium environments."""

from random import Random

import pytest

from openenv.envs.gymnasium_env import GymnasiumAction, GymnasiumObservation, GymnasiumText
from openenv.envs.gymnasium_env.server.environment import GymnasiumEnvironment
from openenv.text.action_forms import UnreadableReply

TEXT = GymnasiumText(GymnasiumAction, GymnasiumObservation)
IDS = ["FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0",
       "Acrobot-v1", "Pendulum-v1"]  # fmt: skip


def seen(env_id, value, space=None, **metadata):
    """An observation of `env_id` with a value."""
    space = space or {"type": "Discrete", "n": 2, "start": 0}
    return GymnasiumObservation(value=value, metadata={"env_id": env_id, "action_space": space, **metadata})


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (seen("FrozenLake-v1", 6), "You are in row 1, column 2."),
        (seen("FrozenLake-v1", 17, env_options={"map_name": "8x8"}), "You are in row 2, column 1."),
        (seen("FrozenLake-v1", 4, env_options={"desc": ["SFF", "FFG"]}), "You are in row 1, column 1."),
        (seen("FrozenLake8x8-v1", 17), "You are in row 2, column 1."),
        (seen("CliffWalking-v1", 36), "You are in row 3, column 0."),
        (seen("Taxi-v4", ((2 * 5 + 3) * 5 + 0) * 4 + 1), "Taxi in row 2, column 3. Passenger red, destination green."),
        (
            seen("Taxi-v4", ((0 * 5 + 1) * 5 + 4) * 4 + 3),
            "Taxi in row 0, column 1. Passenger aboard, destination blue.",
        ),
        (seen("Blackjack-v1", [16, 10, 0]), "You have hard 16. The dealer shows 10."),
        (seen("Blackjack-v1", [18, 1, 1]), "You have soft 18. The dealer shows 1."),
        (seen("CartPole-v1", [-0.41, 0.1, -0.058, 99.0]), "Position -1, speed 0, angle -3, spin 15."),
        (seen("MountainCar-v0", [-0.52, 0.006]), "Position -5, speed 1."),
        (seen("Pendulum-v1", [0.0, 1.0, -1.2]), "Angle 5, spin -2."),
        (seen("Acrobot-v1", [1.0, 0.0, 0.0, -1.0, 1.0, -2.0]), "Upper 0, lower -8, spin 2, lower spin -2."),
        (seen("Ant-v5", [0.12345, 1.0]), "0.123 1"),
    ],
)
def test_observations_are_described_in_a_few_words(observation, words):
    assert TEXT.describe(observation) == words


@pytest.mark.parametrize("env_id", IDS)
def test_random_replies_are_actions_that_the_environment_takes(env_id):
    env, rng = GymnasiumEnvironment(env_id), Random(1)
    observation = env.reset(seed=1)
    for _ in range(20):
        reply, action = TEXT.random_reply(observation, rng)
        assert TEXT.parse(reply, observation) == action
        observation = env.step(action)
        if observation.done:
            break


def test_replies_are_the_names_of_the_legal_actions():
    first = GymnasiumEnvironment("FrozenLake-v1").reset(seed=1)

    assert list(TEXT.replies(first)) == ["left", "down", "right", "up"]
    assert TEXT.parse("right", first) == GymnasiumAction(value=2)
    assert TEXT.instructions(first).endswith("Reply with one of these: left, down, right, up.")


def test_the_legal_actions_of_taxi_are_shown_and_no_others_are_replies():
    first = GymnasiumEnvironment("Taxi-v4").reset(seed=3)

    assert TEXT.describe(first).endswith(" Legal replies: south, east.")
    assert TEXT.parse("pickup", first) is None


def test_a_row_of_numbers_is_a_box_of_one_dimension():
    first = GymnasiumEnvironment("Pendulum-v1").reset(seed=1)

    assert TEXT.instructions(first).endswith("Reply with a number from -2 to 2, such as 1.")
    assert TEXT.parse("Push: -1.5", first) == GymnasiumAction(value=[-1.5])
    assert TEXT.parse("\u22121.5", first) == GymnasiumAction(value=[-1.5])
    assert TEXT.parse("0.5-1", first) is None
    assert TEXT.parse_cut_off("-1.5", first) is None
    assert TEXT.parse('{"value": [-1.5]}', first) == GymnasiumAction(value=[-1.5])
    assert TEXT.wording(GymnasiumAction(value=[-1.5]), first) == "-1.5"


@pytest.mark.parametrize("reply", ["", "left", "-2.5", "0.5 0.5"])
def test_a_reply_with_other_numbers_names_no_action(reply):
    first = GymnasiumEnvironment("Pendulum-v1").reset(seed=1)

    assert TEXT.parse(reply, first) is None
    assert TEXT.problem(reply, first).endswith("is not a number from -2 to 2.")


def test_bounds_of_each_number_are_shown():
    car = {"type": "Box", "shape": [3], "dtype": "float32", "low": [-1.0, 0.0, None], "high": 1.0}

    assert TEXT.instructions(seen("Any-v0", 0, car)).endswith(
        "Reply with 3 numbers from -1 0 any to 1 1 1, such as 0.5 0.25 0.5."
    )
    assert TEXT.parse("-1 0 -9", seen("Any-v0", 0, car)) == GymnasiumAction(value=[-1.0, 0.0, -9.0])


def test_another_space_is_answered_with_json():
    square = {"type": "Box", "shape": [1, 1], "dtype": "float32", "low": 0.0, "high": 1.0}

    assert '"high": 1.0' in TEXT.instructions(seen("Any-v0", 0, square))
    assert TEXT.parse('{"value": [[0.5]]}', seen("Any-v0", 0, square)) == GymnasiumAction(value=[[0.5]])


def test_random_elements_of_a_box_keep_its_shape_and_bounds():
    space = {"type": "Box", "shape": [2, 2], "dtype": "float32", "low": [[0.0, -3.0], [None, 5.0]], "high": None}
    rows = [TEXT.random_reply(seen("Any-v0", 0, space), Random(n))[1].value for n in range(50)]

    assert all(0 <= a <= 1 and -3 <= b <= 1 and -1 <= c <= 1 and d == 5 for (a, b), (c, d) in rows)
    whole = {"type": "Box", "shape": [3], "dtype": "uint8", "low": 0, "high": 2}
    assert set(TEXT.random_reply(seen("Any-v0", 0, whole), Random(1))[1].value) <= {0, 1, 2}
    with pytest.raises(UnreadableReply, match="action space Graph"):
        TEXT.random_reply(seen("Any-v0", 0, {"type": "Graph", "spaces": {}}), Random(1))


def test_blackjack_names_the_kind_of_decision():
    assert TEXT.situation(seen("Blackjack-v1", [16, 10, 0])) == "hard 16"
    assert TEXT.situation(seen("CartPole-v1", [0.0, 0.0, 0.0, 0.0])) is None
