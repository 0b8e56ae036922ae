"""One session plays every seat of a game: turns, views, rewards, simultaneous moves, snapshots."""

from random import Random

import pyspiel
import pytest

from openenv.core.errors import EnvironmentFault
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from tests.envs.openspiel_env.playing import GAMES, GAMES_WITH_PARAMETERS

SLOW = {"bridge_uncontested_bidding", "laser_tag", "python_dynamic_routing"}


@pytest.fixture
def env(openspiel_url):
    with OpenSpielEnv(base_url=openspiel_url) as client:
        yield client


def play(env, seed, rng, **reset):
    """All results of a random episode."""
    results = [env.reset(seed=seed, agent_player="all", **reset)]
    while not results[-1].done:
        action_id = rng.choice(results[-1].observation.legal_actions)
        results.append(env.step(OpenSpielAction(action_id=action_id)))
    return results


def test_seats_take_turns_and_see_one_board(env):
    results = play(env, 1, Random(0), game_name="tic_tac_toe")

    seats = [result.observation.current_player_id for result in results[:-1]]
    assert seats == [number % 2 for number in range(len(seats))]
    assert all(
        result.observation.metadata["agent_player"] == seat for result, seat in zip(results, seats, strict=False)
    )
    marks = [result.observation.metadata["text"].replace(".", "").replace("\n", "") for result in results]
    assert [len(board) for board in marks] == list(range(len(results)))


def test_each_seat_of_poker_sees_its_own_card_alone(env):
    for seed in range(10):
        first = env.reset(seed=seed, game_name="kuhn_poker", agent_player="all").observation
        second = env.step(OpenSpielAction(action_id=0)).observation
        # OpenSpiel's observation begins with the seat and the card, one of three, both one-hot
        cards = [tuple(seen.info_state[2:5]) for seen in (first, second)]
        assert [sum(card) for card in cards] == [1, 1]
        assert cards[0] != cards[1]


def test_the_rewards_of_every_seat_sum_to_the_returns_of_the_game(env):
    for seed in range(20):
        results = play(env, seed, Random(seed), game_name="kuhn_poker")
        totals = [sum(result.observation.metadata["rewards"][seat] for result in results) for seat in (0, 1)]

        assert sum(totals) == 0
        assert abs(totals[0]) in (1, 2)
        last_actor = results[-2].observation.current_player_id
        assert results[-1].reward == results[-1].observation.metadata["rewards"][last_actor]


def test_simultaneous_moves_are_chosen_one_after_another_and_unseen(env):
    game = pyspiel.load_game("matrix_rps")
    for first in range(3):
        for second in range(3):
            env.reset(seed=0, game_name="matrix_rps", agent_player="all")
            between = env.step(OpenSpielAction(action_id=first))
            assert not between.done
            assert between.observation.current_player_id == 1
            assert between.observation.metadata["rewards"] == [0, 0]
            last = env.step(OpenSpielAction(action_id=second))

            state = game.new_initial_state()
            state.apply_actions([first, second])
            assert last.done
            assert last.observation.metadata["rewards"] == state.returns()

    views = set()
    for first in range(3):
        env.reset(seed=0, game_name="matrix_rps", agent_player="all")
        views.add(env.step(OpenSpielAction(action_id=first)).observation.metadata["text"])
    assert len(views) == 1


@pytest.mark.process
def test_every_game_is_played_from_all_of_its_seats(env):
    for game in GAMES:
        if game in SLOW:
            continue
        rng, keywords = Random(game), {"game_name": game, "game_params": GAMES_WITH_PARAMETERS.get(game)}
        result = env.reset(seed=1, agent_player="all", **keywords)
        for _ in range(30):
            if result.done:
                break
            result = env.step(OpenSpielAction(action_id=rng.choice(result.observation.legal_actions)))
            assert len(result.observation.metadata["rewards"]) == env.state().num_players, game


def test_equal_seeds_and_actions_give_equal_games(env):
    episodes = [[r.observation for r in play(env, 5, Random(1), game_name="leduc_poker")] for _ in range(2)]

    assert episodes[0] == episodes[1]


@pytest.mark.parametrize("game", ["leduc_poker", "matrix_rps", "backgammon"])
def test_a_saved_game_goes_on_where_it_was(env, game):
    legal = env.reset(seed=2, game_name=game, agent_player="all").observation.legal_actions
    seen = env.step(OpenSpielAction(action_id=legal[0]))
    token, action = env.save(), OpenSpielAction(action_id=seen.observation.legal_actions[-1])
    onward = env.step(action)
    env.reset(seed=9, game_name=game)
    env.restore(token)

    assert env.state().agent_player == "all"
    again = env.step(action)
    assert (again.observation, again.reward) == (onward.observation, onward.reward)


def test_an_illegal_action_is_refused_and_the_seat_keeps_its_turn(env):
    env.reset(game_name="tic_tac_toe", agent_player="all")
    env.step(OpenSpielAction(action_id=4))
    with pytest.raises(EnvironmentFault, match="action_id=4 is not legal now"):
        env.step(OpenSpielAction(action_id=4))

    assert env.step(OpenSpielAction(action_id=0)).observation.current_player_id == 0
    assert env.state().step_count == 2


@pytest.mark.parametrize("keywords", [{"opponent_policy": "random"}, {"reveal_history": True}])
def test_what_all_seats_exclude_is_refused_by_name(env, keywords):
    with pytest.raises(EnvironmentFault, match=rf"{next(iter(keywords))}=.*agent_player='all'"):
        env.reset(game_name="tic_tac_toe", agent_player="all", **keywords)


def test_one_seat_is_played_again_after_all_of_them(env):
    env.reset(seed=1, game_name="tic_tac_toe", agent_player="all")
    result = env.reset(seed=1, game_name="tic_tac_toe", agent_player=1)

    assert result.observation.metadata["agent_player"] == 1
    assert env.state().agent_player == 1
