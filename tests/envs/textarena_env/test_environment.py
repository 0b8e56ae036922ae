"""TextArena's games: seats, words, seeds beside other sessions, snapshots, and what is refused."""

from random import Random

import pytest

from openenv.core.errors import EnvironmentFault
from openenv.envs.textarena_env import TextArenaAction, TextArenaEnv, TextArenaText
from openenv.hosting.local_process import LocalServer
from tests.envs.extras import require_extra

require_extra("textarena", "textarena")

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def url():
    with LocalServer("openenv.envs.textarena_env.server.app", ["--game", "TicTacToe"]) as server:
        yield server.base_url


@pytest.fixture
def env(url):
    with TextArenaEnv(base_url=url) as client:
        yield client


def say(env, *messages):
    return [env.step(TextArenaAction(message=message)) for message in messages]


def at_random(env, seed, **reset):
    """The texts of an episode of random play, at most 30 replies long."""
    result, rng = env.reset(seed=seed, **reset), Random(seed)
    texts = [result.observation.text]
    while not result.done and len(texts) < 30:
        result = env.step(TextArenaText().random_reply(result.observation, rng)[1])
        texts.append(result.observation.text)
    return texts


def test_two_seats_write_in_turn_and_the_winner_is_rewarded(env):
    first = env.reset(seed=1)
    assert "You are Player 0 in Tic Tac Toe" in first.observation.text
    assert first.observation.examples == [f"[{cell}]" for cell in range(9)]

    results = say(env, "[0]", "[3]", "[1]", "[4]", "[2]")
    assert [result.observation.metadata["agent_player"] for result in results] == [1, 0, 1, 0, 0]
    assert [result.done for result in results] == [False] * 4 + [True]
    assert results[-1].reward == 1.0
    assert results[-1].observation.metadata["rewards"] == [1.0, -1.0]
    assert env.state().step_count == 5


def test_a_second_invalid_move_loses_and_the_reason_is_given(env):
    env.reset(seed=1)
    warned, ended = say(env, "[9]", "[9]")

    assert "invalid move" in warned.observation.text
    assert not warned.done
    assert ended.observation.metadata["rewards"] == [-1.0, 1.0]
    assert "Must be between 0 and 8" in ended.observation.metadata["reasons"][0]


def test_games_that_exchange_reward_and_reason_are_read_rightly(env):
    env.reset(seed=3, game="Countdown")
    _, ended = say(env, "[1]", "[1]")

    assert ended.done
    assert 0 <= ended.reward <= 1
    assert "Invalid action format" in ended.observation.metadata["reasons"][0]


def test_wordle_knows_its_words_without_a_download(env):
    env.reset(seed=1, game="Wordle")
    (unknown,) = say(env, "[qqqqq]")
    (known,) = say(env, "[table]")

    assert "not an English word" in unknown.observation.text
    assert "T A B L E" in known.observation.text


@pytest.mark.parametrize("game", ["2048", "Poker", "Minesweeper", "PigDice"])  # they draw while they are played
def test_equal_seeds_give_equal_games_beside_other_sessions(url, env, game):
    alone = at_random(env, 4, game=game)
    with TextArenaEnv(base_url=url) as other:
        other.reset(seed=9, game="2048")
        result, rng, beside = env.reset(seed=4, game=game), Random(4), []
        beside.append(result.observation.text)
        while not result.done and len(beside) < 30:
            at_random(other, len(beside), game="Blackjack")
            result = env.step(TextArenaText().random_reply(result.observation, rng)[1])
            beside.append(result.observation.text)

    assert beside == alone
    assert at_random(env, 5, game=game) != alone


@pytest.mark.parametrize("game", ["PigDice", "TicTacToe"])
def test_a_saved_game_goes_on_where_it_was(env, game):
    result, rng = env.reset(seed=2, game=game), Random(0)
    for _ in range(3):
        result = env.step(TextArenaText().random_reply(result.observation, rng)[1])
    token, action = env.save(), TextArenaText().random_reply(result.observation, rng)[1]
    onward = env.step(action).observation
    env.reset(seed=8, game="Wordle")
    env.restore(token)

    assert env.state().game == game
    assert env.step(action).observation == onward


def test_the_number_of_seats_may_be_chosen_where_the_game_takes_it(env):
    assert env.reset(seed=1, game="Poker", num_players=4).observation.metadata["num_players"] == 4
    with pytest.raises(EnvironmentFault, match="num_players=3"):
        env.reset(seed=1, game="Wordle", num_players=3)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"game": "Wordel"}, "game='Wordel': expected one of .*Did you mean 'Wordle'"),
        ({"game": "../evil"}, "game='../evil'"),
        ({"num_players": 0}, "num_players=0: expected a whole number from 1 to 15"),
        ({"num_players": True}, "num_players=True"),
        ({"agent_player": 0}, "agent_player=0: the caller writes for every seat"),
        ({"level": 3}, "got level"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field_and_the_game_goes_on(env, keywords, message):
    env.reset(seed=1)
    with pytest.raises(EnvironmentFault, match=message):
        env.reset(**keywords)

    assert say(env, "[4]")[0].observation.metadata["agent_player"] == 1


def test_an_empty_reply_names_no_action():
    text = TextArenaText()

    assert text.parse("  ", None) is None
    assert text.parse(" [4] ", None) == TextArenaAction(message="[4]")


def test_the_replies_to_a_number_are_those_of_the_range_that_the_rules_state(env):
    observation = env.reset(seed=1, game="GuessTheNumber").observation
    assert observation.examples == [f"[{number}]" for number in range(1, 21)]

    (answered,) = say(env, "[7]")

    assert answered.observation.examples == observation.examples  # not the reply that the messages repeat


def test_the_replies_to_several_numbers_are_drawn_from_the_range_that_the_rules_state(env):
    examples = env.reset(seed=1, game="Mastermind").observation.examples

    assert len(examples) > 50
    codes = [example.strip("[]").split() for example in examples]
    assert all(len(set(code)) == 4 and set(code) <= set("123456") for code in codes)
