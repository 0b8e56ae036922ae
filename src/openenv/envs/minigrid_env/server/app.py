"""Serves MiniGrid: `python -m openenv.envs.minigrid_env.server.app --env-id MiniGrid-DoorKey-5x5-v0 --port 8000`.

Environment variables configure `app`: MINIGRID_ENV_ID (default MiniGrid-Empty-8x8-v0), and MINIGRID_RENDER (1: a frame
in each observation).
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, run_server
from openenv.envs.minigrid_env.models import MiniGridAction, MiniGridObservation, MiniGridState
from openenv.envs.minigrid_env.server.environment import MiniGridEnvironment


def build_app(env_id: str, render: bool, config: ServerConfig | None = None) -> FastAPI:
    """Return the application that serves `env_id`. Raises ValueError, naming the field, where there is none."""
    defaults = {"env_id": env_id, "render": render}
    MiniGridEnvironment(**defaults)  # a wrong setting fails here, not at the first session
    return create_app(
        partial(MiniGridEnvironment, **defaults),
        MiniGridAction,
        MiniGridObservation,
        env_name="minigrid_env",
        state_cls=MiniGridState,
        config=config,
    )


def settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `build_app` from environment variables."""
    return {
        "env_id": environ.get("MINIGRID_ENV_ID", "MiniGrid-Empty-8x8-v0"),
        "render": environ.get("MINIGRID_RENDER", "") == "1",
    }


app = build_app(**settings(os.environ))


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    default = settings(os.environ)
    parser = argparse.ArgumentParser(
        prog="python -m openenv.envs.minigrid_env.server.app", description="Serve MiniGrid and BabyAI."
    )
    parser.add_argument("--env-id", default=default["env_id"], help="Play this id (default %(default)s).")
    parser.add_argument(
        "--render",
        action="store_true",
        default=default["render"],
        help="Send the rendered frame in each observation, as a PNG file (default off).",
    )
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(args: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(args.env_id, args.render, config)


if __name__ == "__main__":
    main()
