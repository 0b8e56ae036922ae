"""Serves Gymnasium: `python -m openenv.envs.gymnasium_env.server.app --env-id FrozenLake-v1 --port 8000`.

Environment variables configure `app`: GYMNASIUM_ENV_ID (default CartPole-v1), GYMNASIUM_ENV_OPTIONS (a JSON object,
default {}), GYMNASIUM_MAX_STEPS (default: the registered limit), and GYMNASIUM_RENDER (1: a frame in each observation).
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, json_object, run_server
from openenv.envs.gymnasium_env.models import GymnasiumAction, GymnasiumObservation, GymnasiumState
from openenv.envs.gymnasium_env.server.choice import EnvChoice
from openenv.envs.gymnasium_env.server.environment import GymnasiumEnvironment
from openenv.envs.rendering import draw_without_display

draw_without_display()


def build_app(
    env_id: str, env_options: str, max_steps: str, render: bool, config: ServerConfig | None = None
) -> FastAPI:
    """Return the application that serves `env_id`. Raises ValueError, naming the field, where it cannot be made."""
    choice = EnvChoice(
        env_id=env_id,
        env_options=json_object("env_options", env_options, '{"is_slippery": false}'),
        max_steps=_whole_number(max_steps),
        render=render,
    )
    choice.make().close()  # a wrong setting fails here, not at the first session
    return create_app(
        partial(GymnasiumEnvironment, **vars(choice)),
        GymnasiumAction,
        GymnasiumObservation,
        env_name="gymnasium_env",
        state_cls=GymnasiumState,
        config=config,
    )


def _whole_number(text: str) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        raise ValueError(f"max_steps={text!r}: expected a whole number from 1, or nothing.") from None


def settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `build_app` from environment variables."""
    return {
        "env_id": environ.get("GYMNASIUM_ENV_ID", "CartPole-v1"),
        "env_options": environ.get("GYMNASIUM_ENV_OPTIONS", "{}"),
        "max_steps": environ.get("GYMNASIUM_MAX_STEPS", ""),
        "render": environ.get("GYMNASIUM_RENDER", "") == "1",
    }


app = build_app(**settings(os.environ))


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    default = settings(os.environ)
    parser = argparse.ArgumentParser(
        prog="python -m openenv.envs.gymnasium_env.server.app",
        description="Serve any registered Gymnasium environment.",
    )
    parser.add_argument(
        "--env-id", default=default["env_id"], help="Play the environment of this id (default %(default)s)."
    )
    parser.add_argument(
        "--env-options",
        default=default["env_options"],
        help="Keywords of gymnasium.make as a JSON object (default %(default)s).",
    )
    parser.add_argument(
        "--max-steps",
        default=default["max_steps"],
        help="Truncate episodes after this many steps (default: the registered limit).",
    )
    parser.add_argument(
        "--render",
        action="store_true",
        default=default["render"],
        help="Send the rendered frame in each observation, as a PNG file (default off).",
    )
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(args: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(args.env_id, args.env_options, args.max_steps, args.render, config)


if __name__ == "__main__":
    main()
