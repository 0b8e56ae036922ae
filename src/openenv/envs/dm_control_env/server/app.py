"""Serves the DeepMind Control Suite: `python -m openenv.envs.dm_control_env.server.app --domain cheetah --task run`.

Environment variables configure `app`: DM_CONTROL_DOMAIN (default cartpole), DM_CONTROL_TASK (default balance), and
DM_CONTROL_RENDER (1: a frame in each observation).
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, run_server
from openenv.envs.dm_control_env.models import DMControlAction, DMControlObservation, DMControlState
from openenv.envs.dm_control_env.server.environment import DMControlEnvironment


def build_app(domain_name: str, task_name: str, render: bool, config: ServerConfig | None = None) -> FastAPI:
    """Return the application that serves a task. Raises ValueError, naming the field, where there is none."""
    defaults = {"domain_name": domain_name, "task_name": task_name, "render": render}
    DMControlEnvironment(**defaults)  # a wrong setting fails here, not at the first session
    return create_app(
        partial(DMControlEnvironment, **defaults),
        DMControlAction,
        DMControlObservation,
        env_name="dm_control_env",
        state_cls=DMControlState,
        config=config,
    )


def settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `build_app` from environment variables."""
    return {
        "domain_name": environ.get("DM_CONTROL_DOMAIN", "cartpole"),
        "task_name": environ.get("DM_CONTROL_TASK", "balance"),
        "render": environ.get("DM_CONTROL_RENDER", "") == "1",
    }


app = build_app(**settings(os.environ))


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    default = settings(os.environ)
    parser = argparse.ArgumentParser(
        prog="python -m openenv.envs.dm_control_env.server.app", description="Serve the DeepMind Control Suite."
    )
    parser.add_argument("--domain", default=default["domain_name"], help="Play this domain (default %(default)s).")
    parser.add_argument("--task", default=default["task_name"], help="Play this task of it (default %(default)s).")
    parser.add_argument(
        "--render",
        action="store_true",
        default=default["render"],
        help="Send the rendered frame in each observation, as a PNG file (default off).",
    )
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(args: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(args.domain, args.task, args.render, config)


if __name__ == "__main__":
    main()
