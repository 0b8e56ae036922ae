"""Serves OpenSpiel: `python -m openenv.envs.openspiel_env.server.app --game blackjack --port 8004`.

Environment variables configure `app`: OPENSPIEL_GAME (default catch), OPENSPIEL_AGENT_PLAYER (default 0),
OPENSPIEL_OPPONENT_POLICY (default random; a comma-separated list has one for each other seat), and
OPENSPIEL_GAME_PARAMS (a JSON object, default {}).
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, json_object, run_server
from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation, OpenSpielState
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.envs.table import SeatEnvironment, Tables, add_tables_option


def build_app(
    game: str,
    agent_player: str | int,
    opponent: str,
    game_params: str,
    config: ServerConfig | None = None,
    *,
    turn_timeout_s: float | None = None,
) -> FastAPI:
    """Return the application that serves `game`. Raises ValueError, naming the field, where it cannot be played.

    turn_timeout_s: serve tables, whose seats are played by different sessions; a seat must act within this time.
    """
    factory: Callable[[], Any] = partial(
        OpenSpielEnvironment,
        game_name=game,
        agent_player=_whole_number(agent_player),
        opponent_policy=opponent.split(",") if "," in opponent else opponent,
        game_params=json_object("game_params", game_params, '{"players": 3}'),
    )
    factory()  # a wrong setting fails here, not at the first session
    if turn_timeout_s is not None:
        factory = partial(SeatEnvironment, Tables(factory, turn_timeout_s), OpenSpielState)
    return create_app(
        factory,
        OpenSpielAction,
        OpenSpielObservation,
        env_name="openspiel_env",
        state_cls=OpenSpielState,
        config=config,
    )


def _whole_number(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"agent_player={text!r}: expected the number of a seat, from 0.") from None


def settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `build_app` from environment variables."""
    return {
        "game": environ.get("OPENSPIEL_GAME", "catch"),
        "agent_player": environ.get("OPENSPIEL_AGENT_PLAYER", "0"),
        "opponent": environ.get("OPENSPIEL_OPPONENT_POLICY", "random"),
        "game_params": environ.get("OPENSPIEL_GAME_PARAMS", "{}"),
    }


app = build_app(**settings(os.environ))


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    default = settings(os.environ)
    parser = argparse.ArgumentParser(
        prog="python -m openenv.envs.openspiel_env.server.app",
        description="Serve any game of OpenSpiel as an environment.",
    )
    parser.add_argument(
        "--game", default=default["game"], help="Play this game by OpenSpiel's short name (default %(default)s)."
    )
    parser.add_argument(
        "--agent-player",
        default=default["agent_player"],
        help="Let the agent play this seat, from 0 (default %(default)s).",
    )
    parser.add_argument(
        "--opponent",
        default=default["opponent"],
        help="Let random, first, last or mcts play the other seats; a comma-separated list names one for each "
        "(default %(default)s).",
    )
    parser.add_argument(
        "--game-params",
        default=default["game_params"],
        help="Parameters of the game as a JSON object (default %(default)s).",
    )
    add_tables_option(parser)
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(args: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(args.game, args.agent_player, args.opponent, args.game_params, config, turn_timeout_s=args.tables)


if __name__ == "__main__":
    main()
