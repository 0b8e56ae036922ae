"""The opponents: greed takes what it can, tree search and Stockfish repeat, and both beat random play."""

from random import Random

import pytest

from openenv.core.errors import EnvironmentFault
from tests.envs.extras import require_extra

require_extra("pyspiel", "chess")

from openenv.envs.chess_env import ChessAction, ChessEnv
from openenv.envs.chess_env.server import stockfish
from openenv.envs.chess_env.server.app import app
from openenv.envs.chess_env.server.fen import START_FEN
from openenv.envs.chess_env.server.game import Game
from openenv.envs.chess_env.server.opponents import greedy_indices
from openenv.envs.chess_env.server.positions import POSITIONS
from openenv.envs.chess_env.server.stockfish import Stockfish, find_stockfish

needs_stockfish = pytest.mark.skipif(
    find_stockfish() is None, reason="needs the program stockfish: apt-get install stockfish"
)


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def greedy_moves(fen):
    legal = Game.start(fen).legal
    return sorted(legal.san[index] for index in greedy_indices(fen, legal.san, legal.uci))


@pytest.mark.parametrize(
    ("fen", "best"),
    [
        ("4k3/8/8/q2r4/8/1N4n1/7P/4K3 w - - 0 1", ["Nxa5"]),
        ("r3k3/1P6/8/8/8/8/8/4K3 w - - 0 1", ["bxa8=Q+"]),
        ("4k3/1P6/8/8/8/8/8/4K3 w - - 0 1", ["b8=Q+"]),
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1", ["exd6"]),
        ("q5k1/5ppp/8/8/8/8/5PPP/R2R2K1 w - - 0 1", ["Rxa8#"]),
        ("6k1/b4ppp/8/8/8/8/5PPP/R2R2K1 w - - 0 1", ["Rd8#"]),
        ("4k3/8/8/8/8/8/7P/4K3 w - - 0 1", ["Kd1", "Kd2", "Ke2", "Kf1", "Kf2", "h3", "h4"]),
    ],
)
def test_greed_gives_checkmate_else_takes_the_most(fen, best):
    legal = Game.start(fen).legal

    assert sorted(legal.san[index] for index in greedy_indices(fen, legal.san, legal.uci)) == best


def losses(url, num_games, **reset):
    """How many games against an opponent an agent loses that plays at random, with each colour in turn."""
    rewards = []
    with ChessEnv(url) as env:
        for seed in range(num_games):
            keywords = {"agent_color": ("black", "white")[seed % 2], **reset}
            result, rng = env.reset(seed=seed, **keywords), Random(seed)
            while not result.done:
                result = env.step(ChessAction(move=rng.choice(result.observation.legal_actions)))
            rewards.append(result.reward)
    return rewards.count(-1.0)


def test_tree_search_beats_random_play(url):
    """With rooks and a queen, where random play almost never gives checkmate."""
    reset = {"fen": "4k3/8/8/8/8/8/8/R2QK2R w - - 0 1", "agent_color": "black", "max_moves": 20}

    assert losses(url, 8, opponent_policy="mcts", mcts_simulations=60, **reset) >= 6
    assert losses(url, 8, opponent_policy="random", **reset) <= 3


def test_greed_beats_random_play(url):
    assert losses(url, 20, opponent_policy="greedy") > losses(url, 20, opponent_policy="random") + 2


@needs_stockfish
def test_stockfish_beats_random_play_from_both_sides(url):
    assert losses(url, 6, opponent_policy="stockfish", stockfish_nodes=50) == 6


@needs_stockfish
def test_stockfish_repeats_exactly_in_a_used_engine_and_in_a_new_one(url):
    def episode(env):
        seen, rng = env.reset(seed=1, opponent_policy="stockfish", stockfish_nodes=300).observation, Random(7)
        for _ in range(8):
            if not seen.done:
                seen = env.step(ChessAction(move=rng.choice(seen.legal_actions))).observation
        return env.state().moves

    with ChessEnv(url) as used, ChessEnv(url) as new:
        first = episode(used)
        used.reset(seed=2, opponent_policy="stockfish", fen="4k3/8/8/8/8/8/8/R2QK2R w - - 0 1", agent_color="black")

        assert episode(used) == episode(new) == first
    assert len(first) > 8


@needs_stockfish
def test_a_search_of_more_nodes_finds_more():
    """A sacrifice of the queen that gives checkmate in two."""
    engine, smothered = Stockfish(), POSITIONS["mate-in-2/smothered"].fen
    shallow, deep = (engine.best_move(smothered, [], nodes) for nodes in (1, 20_000))
    engine.close()

    assert shallow != deep == "b3g8"


@needs_stockfish
def test_a_snapshot_of_a_game_against_stockfish_goes_on(url):
    with ChessEnv(url) as env, ChessEnv(url) as other:
        env.reset(seed=1, opponent_policy="stockfish")
        seen = env.step(ChessAction(move="e4")).observation
        token = env.save()
        onward = env.step(ChessAction(move=seen.legal_actions[3])).observation
        other.reset(seed=9)
        env.restore(token)

        assert env.step(ChessAction(move=seen.legal_actions[3])).observation == onward


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a shell script on PATH as the program stockfish."""

    def write(script):
        program = tmp_path / "stockfish"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return write


def test_an_engine_that_ends_is_an_error_and_the_game_stays_as_it_was(url, install):
    install("exit 1")
    with ChessEnv(url) as env:
        env.reset(seed=1, opponent_policy="stockfish")
        for _ in range(2):
            with pytest.raises(EnvironmentFault, match="Stockfish ended, or had no move after 30 s"):
                env.step(ChessAction(move="e4"))

        assert (env.state().moves, env.state().step_count) == ([], 0)


def test_an_engine_that_does_not_answer_is_killed(install):
    install("exec sleep 1000")
    engine = Stockfish(answer_s=0.1)

    with pytest.raises(RuntimeError, match="Stockfish ended, or had no move after 0"):
        engine.best_move(START_FEN, [], 1)
    engine.close()


def test_an_engine_that_has_ended_is_started_again(install, tmp_path):
    """Each process ends after one answer; the file counts them."""
    answer = "while read line; do case $line in isready) echo readyok;; go*) echo bestmove e2e4; exit;; esac; done"
    install(f"echo started >> {tmp_path}/log\n{answer}")
    engine = Stockfish()

    for _ in range(2):
        assert engine.best_move(START_FEN, [], 1) == "e2e4"
        with pytest.raises(RuntimeError, match="Take the step again"):
            engine.best_move(START_FEN, [], 1)
    assert (tmp_path / "log").read_text() == "started\n" * 2


def test_without_the_program_the_error_names_what_to_install(url, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(stockfish, "DEBIAN_FOLDER", "/nowhere")
    with ChessEnv(url) as env:
        env.reset(seed=1)
        with pytest.raises(EnvironmentFault, match=r"opponent_policy='stockfish': .* `apt-get install stockfish`"):
            env.reset(opponent_policy="stockfish")

        assert not env.step(ChessAction(move="e4")).done
