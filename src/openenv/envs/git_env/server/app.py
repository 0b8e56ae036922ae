"""Serves the git environment: `python -m openenv.envs.git_env.server.app --port 8000`."""

import argparse
from collections.abc import Sequence

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, run_server
from openenv.envs.git_env.models import GitAction, GitObservation, GitState
from openenv.envs.git_env.server.environment import GitEnvironment


def build_app(config: ServerConfig | None = None) -> FastAPI:
    """Return the application that serves the git environment."""
    return create_app(GitEnvironment, GitAction, GitObservation, state_cls=GitState, env_name="git_env", config=config)


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
