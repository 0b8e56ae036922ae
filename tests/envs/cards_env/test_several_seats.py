"""Card games whose seats are all played by the caller: in one session, from several clients, and by PettingZoo."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from random import Random

import pytest

from openenv.core.errors import EnvironmentFault
from tests.envs.extras import require_extra

require_extra("rlcard", "cards")

from pettingzoo.test import api_test

from openenv.envs.cards_env import CardsAction, CardsEnv, CardsText
from openenv.envs.cards_env.server.app import app
from openenv.envs.cards_env.server.games import GAMES
from openenv.hosting.local_process import LocalServer
from openenv.integrations.pettingzoo import make

TEXT = CardsText()
SEVERAL = [game for game, known in GAMES.items() if known.num_players > 1]


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def play_all(env, rng, **keywords):
    """Every result of an episode in which one client acts for all seats at random."""
    results = [env.reset(agent_player="all", **keywords)]
    while not results[-1].done:
        results.append(env.step(TEXT.random_reply(results[-1].observation, rng)[1]))
    return results


@pytest.mark.parametrize("game", SEVERAL)
def test_each_observation_is_that_of_the_seat_to_act(url, game):
    with CardsEnv(url) as env:
        results = play_all(env, Random(1), seed=4, game=game)

    for before, after in pairwise(results):
        seen, metadata = after.observation, after.observation.metadata
        assert seen.moves[-1].startswith(f"player {before.observation.seat} ")
        assert seen.seat == metadata["agent_player"]
        assert after.reward == metadata["rewards"][before.observation.seat]
        assert any(metadata["rewards"]) <= after.done
    assert results[0].observation.metadata["num_players"] == len(results[-1].observation.metadata["rewards"])


@pytest.mark.parametrize("game", ["leduc-holdem", "limit-holdem", "no-limit-holdem"])
def test_poker_pays_to_one_seat_what_others_lose(url, game):
    with CardsEnv(url) as env:
        for seed in range(10):
            rewards = play_all(env, Random(seed), seed=seed, game=game)[-1].observation.metadata["rewards"]
            assert sum(rewards) == 0
            assert any(rewards)


def test_the_moves_a_seat_sees_begin_with_its_own_last_one(url):
    with CardsEnv(url) as env:
        results = play_all(env, Random(2), seed=2, game="doudizhu")
    later = results[7].observation

    assert [move.split()[1] for move in later.moves] == [str((later.seat + turn) % 3) for turn in range(3)]


def test_a_game_from_all_seats_is_the_game_that_each_seat_would_see(url):
    with CardsEnv(url) as env, CardsEnv(url) as alone:
        together = env.reset(seed=8, agent_player="all", game="uno").observation
        apart = alone.reset(seed=8, agent_player=together.seat, game="uno").observation

    assert (together.hand, together.public, together.legal_actions) == (apart.hand, apart.public, apart.legal_actions)


def test_a_restored_game_goes_on_with_the_same_seat(url):
    with CardsEnv(url) as env:
        seen = env.reset(seed=5, agent_player="all", game="gin-rummy", features=True).observation
        for _ in range(7):
            seen = env.step(CardsAction(action_id=seen.legal_actions[0])).observation
        snapshot = env.save()
        futures = []
        for _ in range(2):
            futures.append(env.step(CardsAction(action_id=seen.legal_actions[0])).observation.model_dump())
            env.restore(snapshot)

    assert futures[0] == futures[1]
    assert len(futures[0]["info_state"]) == 260


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"agent_player": "both"}, "agent_player='both': expected a whole number from 0 to 1, or 'all'"),
        ({"agent_player": True}, "agent_player=True"),
        ({"agent_player": "all", "opponent_policy": "rule"}, "opponent_policy='rule': with agent_player='all'"),
        ({"features": "yes"}, "features='yes'"),
    ],
)
def test_a_wrong_choice_is_an_error_that_names_the_keyword(url, keywords, message):
    with CardsEnv(url) as env, pytest.raises(EnvironmentFault, match=message):
        env.reset(game="uno", **keywords)


def test_four_clients_play_one_game_of_mahjong():
    with LocalServer("openenv.envs.cards_env.server.app", ["--tables", "30"]) as server:

        def play_seat(seat):
            with CardsEnv(base_url=server.base_url) as env:
                result, rng, total = env.reset(table="t", seat=seat, game="mahjong", seed=3), Random(seat), 0.0
                while not result.done:
                    assert result.observation.seat == seat
                    result = env.step(TEXT.random_reply(result.observation, rng)[1])
                    total += result.reward
                assert result.observation.seat == seat
                return total

        with ThreadPoolExecutor(4) as threads:
            totals = list(threads.map(play_seat, range(4)))

    assert sorted(totals) in ([-1.0, -1.0, -1.0, 1.0], [0.0] * 4)


@pytest.mark.parametrize("game", ["leduc-holdem", "uno", "doudizhu"])
def test_pettingzoos_api_test_passes(game):
    with make("cards", {"game": game, "features": True}) as env, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # observations are no images
        api_test(env, num_cycles=60)


def test_pettingzoo_asks_for_the_features():
    with pytest.raises(ValueError, match=r"options=\{'features': True\}"), make("cards", {"game": "uno"}):
        pass
