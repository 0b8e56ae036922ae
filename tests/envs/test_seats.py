"""Seats of one game, each played by a client of its own: turns, rewards, endings, and what is refused."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from openenv.core.errors import EnvironmentFault
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.hosting.local_process import LocalServer

pytestmark = pytest.mark.process

TURN_S = 5.0
TIC_TAC_TOE = {"game_name": "tic_tac_toe"}


@pytest.fixture(scope="module")
def url():
    with LocalServer("openenv.envs.openspiel_env.server.app", ["--tables", str(TURN_S)]) as server:
        yield server.base_url


@pytest.fixture
def threads():
    with ThreadPoolExecutor(4) as pool:
        yield pool


def play_seat(url, table, seat, choose, **game):
    """All results of one seat, from its own client."""
    with OpenSpielEnv(base_url=url) as env:
        results = [env.reset(table=table, seat=seat, **game)]
        while not results[-1].done:
            results.append(env.step(OpenSpielAction(action_id=choose(results[-1].observation))))
    return results


def at_random(rng):
    return lambda observation: rng.choice(observation.legal_actions)


def test_two_clients_play_one_game_in_turns(url, threads):
    for number in range(10):
        seats = [
            threads.submit(play_seat, url, f"game {number}", seat, at_random(Random(seat)), **TIC_TAC_TOE)
            for seat in (0, 1)
        ]
        first, second = (seat.result(timeout=60) for seat in seats)

        assert all(seen.observation.current_player_id == 0 for seen in first[:-1])
        assert all(seen.observation.current_player_id == 1 for seen in second[:-1])
        assert 0 <= (len(first) - 1) - (len(second) - 1) <= 1
        assert sum(result.reward or 0 for result in first) + sum(result.reward or 0 for result in second) == 0
        assert first[-1].observation.metadata["text"] == second[-1].observation.metadata["text"]
        assert [results[-1].observation.metadata["agent_player"] for results in (first, second)] == [0, 1]


def test_each_seat_of_poker_sees_its_own_card_to_the_end(url, threads):
    def bet(seen):
        return seen.legal_actions[-1]

    game = {"game_name": "kuhn_poker", "seed": 3}
    seats = [threads.submit(play_seat, url, "poker", seat, bet, **game) for seat in (0, 1)]
    cards = [{tuple(result.observation.info_state[2:5]) for result in seat.result(timeout=60)} for seat in seats]

    assert [len(card) for card in cards] == [1, 1]
    assert cards[0] != cards[1]


def test_many_tables_are_played_at_once(url):
    games = 2 * ("tic_tac_toe", "connect_four", "kuhn_poker", "breakthrough")
    with ThreadPoolExecutor(16) as threads:
        seats = [
            threads.submit(play_seat, url, f"table {table}", seat, at_random(Random(table)), game_name=game)
            for table, game in enumerate(games)
            for seat in (0, 1)
        ]
        assert all(seat.result(timeout=60)[-1].done for seat in seats)


def test_the_same_table_is_played_again(url, threads):
    def rounds(seat):
        with OpenSpielEnv(base_url=url) as env:
            returns = []
            for _ in range(5):
                result, rng = env.reset(table="again", seat=seat, **TIC_TAC_TOE), Random(seat)
                total = result.reward or 0
                while not result.done:
                    result = env.step(OpenSpielAction(action_id=rng.choice(result.observation.legal_actions)))
                    total += result.reward
                returns.append(total)
        return returns

    first, second = (threads.submit(rounds, seat) for seat in (0, 1))

    assert [a + b for a, b in zip(first.result(timeout=60), second.result(timeout=60), strict=True)] == [0] * 5


def test_a_client_that_leaves_ends_the_game_for_the_others(url, threads):
    other = threads.submit(play_seat, url, "left", 1, at_random(Random(0)), **TIC_TAC_TOE)
    with OpenSpielEnv(base_url=url) as env:
        env.reset(table="left", seat=0, **TIC_TAC_TOE)

    with pytest.raises(EnvironmentFault, match=r"seat 0 has left table 'left'\. Call reset\(\) for another one"):
        other.result(timeout=60)


def test_a_seat_that_stays_free_ends_the_wait_with_the_reason(url):
    late = pytest.raises(EnvironmentFault, match="5 s passed before all seats were taken")
    with OpenSpielEnv(base_url=url) as env, late:
        env.reset(table="alone", seat=0, **TIC_TAC_TOE)


def test_an_illegal_action_is_refused_and_the_seat_keeps_its_turn(url, threads):
    other = threads.submit(play_seat, url, "illegal", 1, lambda seen: seen.legal_actions[0], **TIC_TAC_TOE)
    with OpenSpielEnv(base_url=url) as env:
        env.reset(table="illegal", seat=0, **TIC_TAC_TOE)
        with pytest.raises(EnvironmentFault, match="action_id=9"):
            env.step(OpenSpielAction(action_id=9))
        result = env.step(OpenSpielAction(action_id=4))
        while not result.done:
            result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
        assert 3 <= env.state().step_count <= 5  # the refused action is not among them
        other.result(timeout=60)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, "table='': name a table"),
        ({"table": "x" * 101}, "name a table with 1 to 100 characters"),
        ({"table": "seats", "seat": 2, **TIC_TAC_TOE}, "seat=2: this game has the seats 0 to 1"),
        ({"table": "seats", "seat": "one"}, "seat='one': expected the number"),
        ({"table": "game", "game_name": "tictactoe"}, "game_name='tictactoe'"),
    ],
)
def test_a_seat_that_cannot_be_taken_is_an_error_that_names_the_field(url, keywords, message):
    with OpenSpielEnv(base_url=url) as env, pytest.raises(EnvironmentFault, match=message):
        env.reset(**keywords)


def test_a_taken_seat_and_another_game_are_refused(url, threads):
    other = threads.submit(play_seat, url, "taken", 1, lambda seen: seen.legal_actions[0], **TIC_TAC_TOE)
    with OpenSpielEnv(base_url=url) as env, OpenSpielEnv(base_url=url) as third:
        env.reset(table="taken", seat=0, **TIC_TAC_TOE)
        with pytest.raises(EnvironmentFault, match="seat=0: it is taken at table 'taken'"):
            third.reset(table="taken", seat=0)
        with pytest.raises(EnvironmentFault, match="was opened with game_name='tic_tac_toe'"):
            third.reset(table="taken", seat=1, game_name="connect_four")
    with pytest.raises(EnvironmentFault):
        other.result(timeout=60)
