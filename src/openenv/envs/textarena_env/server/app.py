"""Serves TextArena: `python -m openenv.envs.textarena_env.server.app --game Wordle --port 8000`.

The environment variable TEXTARENA_GAME (default GuessTheNumber) configures `app`.
"""

import argparse
import os
from collections.abc import Sequence
from functools import partial

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, run_server
from openenv.envs.textarena_env.models import TextArenaAction, TextArenaObservation, TextArenaState
from openenv.envs.textarena_env.server.environment import TextArenaEnvironment
from openenv.envs.textarena_env.server.games import check_game

DEFAULT_GAME = "GuessTheNumber"


def build_app(game: str = DEFAULT_GAME, config: ServerConfig | None = None) -> FastAPI:
    """Return the application that serves `game` by default. Raises ValueError for an unknown one."""
    return create_app(
        partial(TextArenaEnvironment, check_game(game)),
        TextArenaAction,
        TextArenaObservation,
        state_cls=TextArenaState,
        env_name="textarena_env",
        config=config,
    )


app = build_app(os.environ.get("TEXTARENA_GAME", DEFAULT_GAME))


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--game",
        default=os.environ.get("TEXTARENA_GAME", DEFAULT_GAME),
        help="Play this game by default (default %(default)s).",
    )
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(args: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(args.game, config)


if __name__ == "__main__":
    main()
