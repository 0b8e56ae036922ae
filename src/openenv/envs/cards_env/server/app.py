"""Serves the card games: `python -m openenv.envs.cards_env.server.app --port 8000`."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, run_server
from openenv.envs.cards_env.models import CardsAction, CardsObservation, CardsState
from openenv.envs.cards_env.server.environment import CardsEnvironment
from openenv.envs.table import SeatEnvironment, Tables, add_tables_option


def build_app(config: ServerConfig | None = None, *, turn_timeout_s: float | None = None) -> FastAPI:
    """Return the application that serves the card games.

    turn_timeout_s: serve tables, whose seats are played by different sessions; a seat must act within this time.
    """
    factory: Callable[[], Any] = CardsEnvironment
    if turn_timeout_s is not None:
        factory = partial(SeatEnvironment, Tables(CardsEnvironment, turn_timeout_s), CardsState)
    return create_app(factory, CardsAction, CardsObservation, state_cls=CardsState, env_name="cards_env", config=config)


app = build_app()


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_tables_option(parser)
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(args: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(config, turn_timeout_s=args.tables)


if __name__ == "__main__":
    main()
