"""Serves the snake environment: `python -m openenv.envs.snake_env.server.app --port 8000`."""

import argparse
from collections.abc import Sequence

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, run_server
from openenv.envs.snake_env.models import SnakeAction, SnakeObservation, SnakeState
from openenv.envs.snake_env.server.environment import SnakeEnvironment


def build_app(config: ServerConfig | None = None) -> FastAPI:
    """Return the application that serves the snake environment."""
    return create_app(
        SnakeEnvironment, SnakeAction, SnakeObservation, state_cls=SnakeState, env_name="snake_env", config=config
    )


app = build_app()


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(_: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(config)


if __name__ == "__main__":
    main()
