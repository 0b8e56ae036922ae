"""Serves the grid world environment: `python -m openenv.envs.grid_world_env.server.app --port 8000`."""

import argparse
from collections.abc import Sequence

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, run_server
from openenv.envs.grid_world_env.models import GridWorldAction, GridWorldObservation, GridWorldState
from openenv.envs.grid_world_env.server.environment import GridWorldEnvironment


def build_app(config: ServerConfig | None = None) -> FastAPI:
    """Return the application that serves the grid world environment."""
    return create_app(
        GridWorldEnvironment,
        GridWorldAction,
        GridWorldObservation,
        state_cls=GridWorldState,
        env_name="grid_world_env",
        config=config,
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
