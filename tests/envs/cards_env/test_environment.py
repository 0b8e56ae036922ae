"""The card games behind a real server."""

from random import Random

import pytest

from openenv.core.errors import EnvironmentFault
from tests.envs.extras import require_extra

require_extra("rlcard", "cards")

import numpy as np

from openenv.envs.cards_env import CardsAction, CardsEnv, CardsText
from openenv.envs.cards_env.server.app import app
from openenv.envs.cards_env.server.games import GAMES
from openenv.envs.cards_env.server.opponents import tasks
from openenv.envs.catalog import load

TEXT = CardsText()
RULED = [game for game, known in GAMES.items() if known.rule_model is not None]


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def played(env, seen, rng, limit=400):
    """The observations of random play to the end, as JSON."""
    shown = []
    while not seen.done and len(shown) < limit:
        seen = env.step(TEXT.random_reply(seen, rng)[1]).observation
        shown.append(seen.model_dump_json())
    return shown


@pytest.mark.parametrize("game", GAMES)
def test_twenty_episodes_of_each_game_end_with_a_payoff(url, game):
    with CardsEnv(url) as env:
        for seed in range(20):
            result = env.reset(seed=seed, game=game)
            rewards, rng = [], Random(seed)
            while not result.done:
                assert result.observation.legal_actions
                result = env.step(TEXT.random_reply(result.observation, rng)[1])
                rewards.append(result.reward)

            assert not any(rewards[:-1]), "only the end is paid"
            assert result.reward is not None
            assert result.observation.legal_actions == []


def test_every_task_plays_to_the_end(url):
    with CardsEnv(url) as env:
        for name, keywords in tasks().items():
            first = env.reset(seed=3, **keywords).observation
            shown = played(env, first, Random(1))
            assert first.done or '"done":true' in shown[-1], name
            assert first.seat == keywords.get("agent_player", 0)


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("policy", ["random", "rule"])
def test_equal_seeds_give_equal_episodes_beside_other_sessions_and_others_differ(url, game, policy):
    if policy == "rule" and game not in RULED:
        pytest.skip("RLCard has no rules for this game")
    with CardsEnv(url) as env, CardsEnv(url) as other:
        episodes = []
        for seed in (5, 6, 7, 5, 6, 7):
            first = env.reset(seed=seed, game=game, opponent_policy=policy).observation
            played(other, other.reset(seed=99, game=game, opponent_policy=policy).observation, Random(seed), limit=3)
            episodes.append([first.model_dump_json(), *played(env, first, Random(3))])

    assert episodes[:3] == episodes[3:]
    assert episodes[0] != episodes[1]


@pytest.mark.parametrize("game", GAMES)
def test_a_restored_episode_has_the_same_future(url, game):
    policy = "rule" if game in ("uno", "gin-rummy", "doudizhu") else "random"
    num_restored = 0
    with CardsEnv(url) as env:
        for seed in range(16):
            num_steps = seed % 4
            seen, rng = env.reset(seed=seed, game=game, opponent_policy=policy).observation, Random(1)
            while not seen.done and env.state().step_count < num_steps:
                seen = env.step(TEXT.random_reply(seen, rng)[1]).observation
            if seen.done:
                continue
            token, before = env.save(), env.state()
            onward = played(env, seen, Random(2))
            env.reset(seed=50 + seed, game="uno")
            env.restore(token)

            assert env.state() == before
            assert played(env, seen, Random(2)) == onward
            num_restored += 1

    assert num_restored >= 4


@pytest.mark.parametrize("game", GAMES)
def test_a_used_session_deals_as_a_new_one_does(url, game):
    with CardsEnv(url) as used:
        for seed in range(6):
            shown = played(used, used.reset(seed=seed, game=game).observation, Random(1), limit=20)
            with CardsEnv(url) as new:
                assert played(new, new.reset(seed=seed, game=game).observation, Random(1), limit=20) == shown


def test_without_a_seed_the_metadata_names_the_one_that_was_drawn(url):
    with CardsEnv(url) as env:
        first = env.reset(game="uno").observation

        assert env.reset(game="uno", seed=first.metadata["seed"]).observation == first


def test_seats_can_be_chosen_and_a_table_can_have_six(url):
    with CardsEnv(url) as env:
        seen = env.reset(seed=1, game="no-limit-holdem", agent_player=5, num_players=6).observation

        assert (seen.seat, env.state().num_players) == (5, 6)
        assert "player 5" in seen.public
        assert all(move.split()[1] != "5" for move in seen.moves), "the others have moved"


def test_the_moves_are_those_since_the_last_observation_and_begin_with_the_agents(url):
    with CardsEnv(url) as env:
        seen = env.reset(seed=4, game="uno").observation
        for _ in range(3):
            seen = env.step(CardsAction(action_id=seen.legal_actions[0])).observation

            assert seen.moves[0].startswith("player 0 ")
            assert all(move.startswith("player 1 ") for move in seen.moves[1:])


@pytest.mark.parametrize("game", ["uno", "doudizhu", "gin-rummy"])
def test_rules_of_rlcard_neither_read_nor_move_numpys_global_random_numbers(url, game):
    episodes = []
    with CardsEnv(url) as env:
        for state in (1, 2):
            np.random.seed(state)
            expected = np.random.RandomState(state).random()
            seen = env.reset(seed=8, game=game, opponent_policy="rule").observation
            episodes.append(played(env, seen, Random(3), limit=15))
            assert np.random.random() == expected

    assert episodes[0] == episodes[1]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"game": "bridge"}, "game='bridge': expected one of blackjack, leduc-holdem"),
        ({"game": "os"}, "game='os'"),
        ({"game": 3}, "game=3"),
        ({"agent_player": 2}, "agent_player=2: expected a whole number from 0 to 1"),
        ({"opponent_policy": "mcts"}, "opponent_policy of leduc-holdem='mcts': expected one of random, rule"),
        ({"game": "mahjong", "opponent_policy": "rule"}, "opponent_policy of mahjong='rule': expected one of random"),
        ({"game": "uno", "num_players": 3}, r"num_players=3: uno has 2\. Leave it out"),
        ({"game": "limit-holdem", "num_players": 7}, "num_players=7: expected a whole number from 2 to 6"),
        (
            {"decks": 1},
            "reset takes seed, episode_id, game, agent_player, opponent_policy, num_players, features; got decks",
        ),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field_and_the_episode_goes_on(url, keywords, message):
    with CardsEnv(url) as env:
        seen = env.reset(seed=4, game="uno").observation
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        env.step(CardsAction(action_id=seen.legal_actions[0]))
        assert (env.state().game, env.state().step_count) == ("uno", 1)


def test_an_action_that_is_not_legal_is_an_error_that_lists_the_legal_ones(url):
    with CardsEnv(url) as env:
        seen = env.reset(seed=4, game="uno").observation
        wrong = next(number for number in range(61) if number not in seen.legal_actions)
        legal = f"Legal are: {seen.legal_actions[0]} {seen.legal_action_names[0]}"
        with pytest.raises(EnvironmentFault, match=f"action_id={wrong} is not legal. {legal}"):
            env.step(CardsAction(action_id=wrong))

        assert env.state().step_count == 0
        assert not env.step(CardsAction(action_id=seen.legal_actions[0])).done


@pytest.mark.parametrize("name", load("cards").measured)
def test_the_heuristics_earn_more_than_random_play(url, name):
    measured = load("cards").load_measured()[name]

    def mean(choose):
        total = 0.0
        for seed in range(300):
            result, rng = env.reset(seed=seed, **measured.reset), Random(seed)
            while not result.done:
                result = env.step(choose(result.observation, rng))
            total += result.reward
        return total / 300

    with CardsEnv(url) as env:
        assert mean(measured.heuristic) > mean(lambda seen, rng: TEXT.random_reply(seen, rng)[1])


@pytest.mark.parametrize("game", GAMES)
def test_every_legal_action_can_be_named(url, game):
    with CardsEnv(url) as env:
        for seed in range(5):
            seen, rng = env.reset(seed=seed, game=game).observation, Random(seed)
            while not seen.done:
                for name, action_id in zip(seen.legal_action_names, seen.legal_actions, strict=True):
                    assert TEXT.parse(name.upper(), seen) == CardsAction(action_id=action_id)
                assert "Legal replies: " in TEXT.describe(seen)
                seen = env.step(TEXT.random_reply(seen, rng)[1]).observation
            assert TEXT.replies(seen) == {}
