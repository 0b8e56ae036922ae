"""Positions of random games."""

from random import Random

import pytest

NUM_GAMES = 8
MOST_MOVES = 150


@pytest.fixture(scope="package")
def positions():
    """Every position of some random games, from the start and from positions with many kinds of moves."""
    from openenv.envs.chess_env.server.fen import START_FEN
    from openenv.envs.chess_env.server.game import Game

    many_kinds = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
    found, rng = [], Random(4)
    for number in range(NUM_GAMES):
        game = Game.start((START_FEN, many_kinds)[number % 2])
        while not game.ending and len(game.san) < MOST_MOVES:
            found.append(game)
            game = game.after(rng.choice(game.legal.actions))
    return found
