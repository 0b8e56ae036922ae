"""Serves the web tasks of MiniWoB++: `python -m openenv.envs.browser_env.server.app --task click-test-2 --port 8000`.

The environment variable BROWSER_TASK (default click-test-2) configures `app`.
"""

import argparse
import os
from collections.abc import Sequence
from functools import partial

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, run_server
from openenv.envs.browser_env.models import BrowserAction, BrowserObservation, BrowserState
from openenv.envs.browser_env.server.environment import DEFAULT_TASK, BrowserEnvironment
from openenv.envs.browser_env.server.tasks import check_task


def build_app(task: str = DEFAULT_TASK, config: ServerConfig | None = None) -> FastAPI:
    """Return the application that serves `task` by default. Raises ValueError for an unknown one."""
    return create_app(
        partial(BrowserEnvironment, check_task(task)),
        BrowserAction,
        BrowserObservation,
        state_cls=BrowserState,
        env_name="browser_env",
        config=config,
    )


app = build_app(os.environ.get("BROWSER_TASK", DEFAULT_TASK))


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--task",
        default=os.environ.get("BROWSER_TASK", DEFAULT_TASK),
        help="Play this task by default (default %(default)s).",
    )
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(args: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(args.task, config)


if __name__ == "__main__":
    main()
