"""The chess environment behind a real server."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import httpx
import pytest

from openenv.core.errors import EnvironmentFault
from tests.envs.extras import require_extra

require_extra("pyspiel", "chess")

from openenv.envs.catalog import load
from openenv.envs.chess_env import ChessAction, ChessEnv
from openenv.envs.chess_env.players import greedy_action
from openenv.envs.chess_env.server.app import app, program
from openenv.envs.chess_env.server.fen import START_FEN
from openenv.envs.chess_env.server.game import Game
from openenv.envs.chess_env.server.positions import POSITIONS

ALL = {"agent_player": "all"}
FOOLS_MATE = ("f3", "e5", "g4", "Qh4#")
SHUFFLE = ("Nf3", "Nf6", "Ng1", "Ng8")


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def go(env, *moves):
    for move in moves:
        result = env.step(ChessAction(move=move))
    return result


def played(env, seen, rng, limit=30):
    """The observations of random play, as JSON."""
    shown = []
    while not seen.done and len(shown) < limit:
        seen = go(env, rng.choice(seen.legal_actions)).observation
        shown.append(seen.model_dump_json())
    return shown


def test_twenty_random_games_end_with_a_reward_of_the_result(url):
    value = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}
    with ChessEnv(url) as env:
        for seed in range(20):
            result, rng, rewards = env.reset(seed=seed, agent_color="random"), Random(seed), []
            color = result.observation.color
            while not result.done:
                assert result.observation.to_move == color
                assert result.observation.result == "*"
                result = go(env, rng.choice(result.observation.legal_actions))
                rewards.append(result.reward)

            seen = result.observation
            assert not any(rewards[:-1]), "only the end is paid"
            assert result.reward == value[seen.result] * (1 if color == "white" else -1)
            assert (seen.legal_actions, seen.legal_uci) == ([], [])
            assert result.truncated == seen.truncated == (seen.ending == "move limit")
            assert env.state().result == seen.result
            assert env.state().ending == seen.ending


def test_the_first_observation_is_the_start_of_a_game(url):
    with ChessEnv(url) as env:
        result = env.reset(seed=1)
        seen = result.observation

    assert (seen.fen, seen.color, seen.to_move, seen.move_number) == (START_FEN, "white", "white", 1)
    assert (seen.in_check, seen.ending, seen.result, seen.last_moves, result.reward) == (False, "", "*", [], None)
    assert seen.board.split("\n")[0] == "8 r n b q k b n r"
    assert seen.board.split("\n")[-1] == "  a b c d e f g h"
    assert dict(zip(seen.legal_uci, seen.legal_actions, strict=True))["g1f3"] == "Nf3"
    assert len(seen.legal_actions) == 20


def test_the_page_shows_the_board_from_the_agents_side_and_the_moves_as_buttons(url):
    for color, first in (("white", "<th scope=row>8</th>"), ("black", "<th scope=row>1</th>")):
        shown = httpx.post(f"{url}/web/reset", json={"agent_color": color}).json()
        html = shown["html"]
        assert html.index("<tr>") == html.index(f"<tr>{first}")
        assert [html.count(piece) for piece in "♔♟"] == [1, 8]
        assert [name for name, _ in shown["actions"]] == shown["observation"]["legal_actions"]
    assert '<td class="dark">♖</td>' in html  # a1


def test_a_move_of_the_agent_is_followed_by_the_opponents(url):
    with ChessEnv(url) as env:
        env.reset(seed=1)
        seen = go(env, "e4").observation

        assert seen.last_moves[0] == "e4"
        assert len(seen.last_moves) == 2
        assert (seen.move_number, seen.to_move) == (2, "white")
        assert env.state().moves == seen.last_moves
        assert env.state().step_count == 1
        for _ in range(4):
            seen = go(env, seen.legal_uci[0]).observation
        assert len(seen.last_moves) == 6
        assert env.state().moves[-6:] == seen.last_moves


def test_the_opponent_of_black_moves_first(url):
    with ChessEnv(url) as env:
        seen = env.reset(seed=1, agent_color="black").observation

        assert (seen.color, seen.to_move, len(seen.last_moves)) == ("black", "black", 1)
        assert env.state().agent_color == "black"


def test_the_seed_draws_the_colour(url):
    with ChessEnv(url) as env:
        colors = [env.reset(seed=seed, agent_color="random").observation.color for seed in range(40)]
        again = [env.reset(seed=seed, agent_color="random").observation.color for seed in range(40)]

    assert colors == again
    assert 10 < colors.count("white") < 30


def test_fools_mate_is_won_by_black_and_lost_by_white(url):
    with ChessEnv(url) as env:
        env.reset(seed=1, fen="rnbqkbnr/pppp1ppp/8/4p3/8/5P2/PPPPP1PP/RNBQKBNR w KQkq - 0 2", opponent_policy="greedy")
        lost = go(env, "g4")
        black = POSITIONS["mate-in-1/fools-mate"].reset()
        env.reset(seed=1, **black)
        won = go(env, "Qh4")

    assert (lost.reward, lost.observation.result, lost.observation.ending) == (-1.0, "0-1", "checkmate")
    assert lost.observation.in_check
    assert (won.reward, won.observation.result) == (1.0, "0-1")
    assert won.terminated


def test_a_draw_earns_nothing(url):
    with ChessEnv(url) as env:
        env.reset(fen="7k/8/5KQ1/8/8/8/8/8 w - - 0 1")
        result = go(env, "Kf7")

    assert (result.done, result.reward, result.observation.ending) == (True, 0.0, "stalemate")
    assert result.observation.result == "1/2-1/2"


def test_a_limit_of_moves_ends_the_game_after_as_many_of_each_colour(url):
    with ChessEnv(url) as env:
        env.reset(seed=1, max_moves=2)
        assert not go(env, "a3").done
        result = go(env, "b3")

        assert len(env.state().moves) == 4
    assert (result.done, result.reward, result.truncated) == (True, 0.0, True)
    assert result.observation.ending == "move limit"
    assert result.observation.legal_actions == []


def test_an_opponent_may_end_the_game_before_the_agents_turn(url):
    with ChessEnv(url) as env:
        result = env.reset(fen="6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1", agent_color="black", opponent_policy="greedy")

    assert (result.done, result.reward, result.observation.last_moves) == (True, -1.0, ["Rd8#"])


def test_one_session_plays_both_colours(url):
    with ChessEnv(url) as env:
        result = env.reset(seed=1, **ALL)
        assert (result.metadata["agent_player"], result.metadata["num_players"]) == (0, 2)
        for move, seat in zip(FOOLS_MATE[:3], (1, 0, 1), strict=True):
            result = go(env, move)
            seen = result.observation
            assert (seen.color, seen.to_move) == (("white", "black")[seat],) * 2
            assert (result.reward, result.metadata) == (0.0, {"agent_player": seat, "rewards": [0.0, 0.0]})
        result = go(env, FOOLS_MATE[3])

        assert (result.done, result.reward, result.observation.color) == (True, 1.0, "black")
        assert result.metadata == {"agent_player": 1, "rewards": [-1.0, 1.0]}
        assert (env.state().agent_color, env.state().moves) == ("both", list(FOOLS_MATE))


def test_a_position_that_comes_three_times_is_a_draw_also_after_a_snapshot(url):
    with ChessEnv(url) as env:
        env.reset(seed=1, **ALL)
        go(env, *SHUFFLE, *SHUFFLE[:3])
        token, before = env.save(), env.state()
        env.reset(seed=2)
        env.restore(token)

        assert env.state() == before
        result = go(env, SHUFFLE[3])
        assert (result.done, result.reward, result.observation.ending) == (True, 0.0, "repetition")


@pytest.mark.parametrize("policy", ["random", "greedy", "mcts"])
def test_equal_seeds_give_equal_episodes_beside_other_sessions_and_others_differ(url, policy):
    reset = {"opponent_policy": policy, "mcts_simulations": 5, "agent_color": "black"}
    with ChessEnv(url) as env, ChessEnv(url) as other:
        episodes = []
        for seed in (5, 6, 5):
            first = env.reset(seed=seed, **reset).observation
            episode, rng, noise = [first.model_dump_json()], Random(3), other.reset(seed=99, **reset).observation
            for _ in range(8):
                first = go(env, rng.choice(first.legal_actions)).observation
                noise = go(other, noise.legal_actions[seed]).observation
                episode.append(first.model_dump_json())
            episodes.append(episode)

    assert episodes[0] == episodes[2]
    assert episodes[0] != episodes[1]


@pytest.mark.parametrize("policy", ["random", "greedy", "mcts"])
def test_a_restored_episode_has_the_same_future(url, policy):
    with ChessEnv(url) as env:
        seen = env.reset(seed=3, opponent_policy=policy, mcts_simulations=5).observation
        for _ in range(3):
            seen = go(env, seen.legal_actions[5]).observation
        token, before = env.save(), env.state()
        onward = played(env, seen, Random(2), limit=10)
        env.reset(seed=50, fen="7k/8/5KQ1/8/8/8/8/8 w - - 0 1")
        env.restore(token)

        assert env.state() == before
        assert played(env, seen, Random(2), limit=10) == onward


def test_without_a_seed_the_metadata_names_the_one_that_was_drawn(url):
    with ChessEnv(url) as env:
        first = env.reset(agent_color="black").observation

        assert env.reset(seed=first.metadata["seed"], agent_color="black").observation == first


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"fen": "8/8/8/8/8/8/8/8 w - - 0 1"}, "fen='8/8/8/8/8/8/8/8 w - - 0 1': white has 0 kings. Expected one"),
        ({"fen": "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"}, r"fen=.*: the game is over \(stalemate\)"),
        ({"fen": "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"}, r"fen=.*: the game is over \(checkmate\)"),
        ({"fen": "7k/8/8/8/8/8/8/K7 w - - 0 1"}, r"the game is over \(insufficient material\)"),
        ({"agent_color": "red"}, "agent_color='red': expected one of white, black, random"),
        ({"opponent_policy": "perfect"}, "opponent_policy='perfect': expected one of random, greedy, mcts, stockfish"),
        ({"opponent_policy": ["mcts"]}, "opponent_policy="),
        ({"mcts_simulations": 0}, "mcts_simulations=0: expected a whole number from 1 to 10000"),
        ({"stockfish_nodes": 1.5}, "stockfish_nodes=1.5"),
        ({"max_moves": True}, "max_moves=True"),
        ({"agent_player": 0}, "agent_player=0: expected one of all"),
        ({"elo": 1}, "reset takes seed, episode_id, fen, agent_color, .*; got elo"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field_and_the_episode_goes_on(url, keywords, message):
    with ChessEnv(url) as env:
        env.reset(seed=4)
        go(env, "e4")
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        go(env, "a3")
        assert (env.state().step_count, env.state().moves[0]) == (2, "e4")


def test_a_move_that_is_not_legal_is_an_error_and_the_game_stays(url):
    with ChessEnv(url) as env:
        env.reset(seed=4, opponent_policy="random")
        with pytest.raises(EnvironmentFault, match=r"move='e5' is not legal\. Legal are: a3, a4, Na3"):
            go(env, "e5")

        assert (env.state().step_count, env.state().moves) == (0, [])
        after = go(env, "e4").observation
        env.reset(seed=4, opponent_policy="random")
        assert go(env, "e4").observation == after


def forces_mate(game, moves):
    """The moves that give checkmate in so many moves against every defence."""

    def mates(move):
        after = game.after(move)
        if after.ending or moves == 1:
            return after.ending == "checkmate"
        answers = [after.after(answer) for answer in after.legal.actions]
        return all(not answered.ending and forces_mate(answered, moves - 1) for answered in answers)

    return [game.legal.san[index] for index, move in enumerate(game.legal.actions) if mates(move)]


@pytest.mark.parametrize("name", [name for name, position in POSITIONS.items() if position.mate_in])
def test_each_mate_is_forced_in_its_number_of_moves_and_not_before(url, name):
    position = POSITIONS[name]
    start = Game.start(position.fen)
    solutions = forces_mate(start, position.mate_in)

    assert solutions
    assert not any(forces_mate(start, fewer) for fewer in range(1, position.mate_in))
    with ChessEnv(url) as env:
        result = env.reset(seed=1, **position.reset())
        for number in range(position.mate_in, 0, -1):
            game = Game.start(result.observation.fen)
            result = go(env, forces_mate(game, number)[0])
        assert (result.done, result.reward) == (True, 1.0)

        if position.mate_in == 1:
            env.reset(seed=1, **position.reset())
            other = next(move for move in start.legal.san if move not in solutions)
            result = go(env, other)
            assert result.done
            assert result.reward < 1


def test_named_mates_need_the_move_that_they_are_named_after():
    def solutions(name):
        return forces_mate(Game.start(POSITIONS[f"mate-in-1/{name}"].fen), 1)

    assert "O-O#" in solutions("castling")
    assert "O-O-O#" in solutions("castling-long")
    assert solutions("en-passant") == ["hxg6#"]
    assert solutions("knight-promotion") == ["f8=N#"]


@pytest.mark.parametrize("name", load("chess").measured)
def test_the_heuristic_earns_more_than_random_play(url, name):
    reset = load("chess").load_measured()[name].reset

    def mean(choose):
        total = 0.0
        for seed in range(30):
            result, rng = env.reset(seed=seed, **reset), Random(seed)
            while not result.done:
                result = env.step(choose(result.observation, rng))
            total += result.reward
        return total / 30

    with ChessEnv(url) as env:
        at_random = mean(lambda seen, rng: ChessAction(move=rng.choice(seen.legal_actions)))
        assert mean(greedy_action) > at_random


def test_two_clients_play_each_other_at_a_table(module_serving):
    url = module_serving(program.build(tables=20.0))

    def seat(number, moves):
        with ChessEnv(url) as env:
            results = [env.reset(table="one", seat=number, seed=1)]
            return [*results, *(env.step(ChessAction(move=move)) for move in moves)]

    with ThreadPoolExecutor(2) as threads:
        seats = [threads.submit(seat, number, FOOLS_MATE[number::2]) for number in (0, 1)]
        white, black = (results.result(timeout=60) for results in seats)

    assert [result.observation.color for result in white] == ["white"] * 3
    assert [result.observation.color for result in black] == ["black"] * 3
    assert (white[-1].reward, black[-1].reward) == (-1.0, 1.0)
    assert white[-1].observation.fen == black[-1].observation.fen
    assert black[0].observation.last_moves == ["f3"]
