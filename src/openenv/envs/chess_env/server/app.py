"""Serves the chess environment: `python -m openenv.envs.chess_env.server.app --port 8000`."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, run_server
from openenv.envs.chess_env.models import ChessAction, ChessObservation, ChessState
from openenv.envs.chess_env.server.environment import ChessEnvironment
from openenv.envs.table import SeatEnvironment, Tables


def build_app(config: ServerConfig | None = None, *, turn_timeout_s: float | None = None) -> FastAPI:
    """Return the application that serves the chess environment.

    turn_timeout_s: serve tables, whose colours are played by different sessions; a seat must act within this time.
    """
    factory: Callable[[], Any] = ChessEnvironment
    if turn_timeout_s is not None:
        factory = partial(SeatEnvironment, Tables(ChessEnvironment, turn_timeout_s), ChessState)
    return create_app(factory, ChessAction, ChessObservation, state_cls=ChessState, env_name="chess_env", config=config)


app = build_app()


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tables",
        type=float,
        metavar="SECONDS",
        help="Let two sessions play each other: reset(table=NAME, seat=0) is white, seat=1 black. A game ends when a "
        "seat is not taken or played for so many seconds (default: a session plays against an opponent_policy).",
    )
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(args: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(config, turn_timeout_s=args.tables)


if __name__ == "__main__":
    main()
