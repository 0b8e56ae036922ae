"""The echo environment returns messages, rewards their length and reads as text."""

import pytest

from openenv.envs.echo_env import EchoAction
from openenv.envs.echo_env.server.environment import EchoEnvironment
from openenv.envs.echo_env.text import EchoText


def test_a_message_returns_with_a_tenth_of_a_point_for_each_character() -> None:
    env = EchoEnvironment()
    env.reset()
    observation = env.step(EchoAction(message="hello"))

    assert (observation.echoed_message, observation.message_length, observation.done) == ("hello", 5, False)
    assert observation.reward == pytest.approx(0.5)


def test_state_has_the_last_message_and_a_reset_clears_it() -> None:
    env = EchoEnvironment()
    env.reset(episode_id="mine")
    env.step(EchoAction(message="hello"))
    stepped = env.state
    env.reset()

    assert (stepped.episode_id, stepped.step_count, stepped.last_message) == ("mine", 1, "hello")
    assert (env.state.step_count, env.state.last_message) == (0, "")
    assert env.state.episode_id not in (None, "mine")


def test_an_unknown_argument_of_reset_raises_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="reset takes seed and episode_id, got level"):
        EchoEnvironment().reset(level=2)


def test_a_reply_of_a_language_model_is_the_message() -> None:
    observation = EchoEnvironment().reset()

    assert EchoText().parse("any reply", observation) == EchoAction(message="any reply")
    assert EchoText().describe(observation) == "Received: Echo environment ready!"
