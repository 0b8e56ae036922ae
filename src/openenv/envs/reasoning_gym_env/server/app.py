"""Serves reasoning-gym: `python -m openenv.envs.reasoning_gym_env.server.app --dataset chain_sum --port 8000`.

Environment variables configure `app`: REASONING_GYM_DATASET (default chain_sum), REASONING_GYM_LEVEL (default: the
dataset's own settings), and REASONING_GYM_SETTINGS (a JSON object, default {}).
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, json_object, run_server
from openenv.envs.reasoning_gym_env.models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState
from openenv.envs.reasoning_gym_env.server.environment import ReasoningGymEnvironment
from openenv.envs.reasoning_gym_env.server.library_process import LIBRARY


def build_app(dataset: str, level: str, settings: str, config: ServerConfig | None = None) -> FastAPI:
    """Return the application that asks questions of `dataset`, where a reset chooses no other.

    Raises ValueError, naming the field, for a level or settings that cannot be read. A wrong name or setting is an
    error of the first reset.
    """
    environment = partial(
        ReasoningGymEnvironment,
        dataset=dataset,
        level=_whole_number(level),
        settings=json_object("settings", settings, '{"min_terms": 2}'),
    )
    environment()  # a wrong value fails here, not at the first session
    LIBRARY.start()
    return create_app(
        environment,
        ReasoningGymAction,
        ReasoningGymObservation,
        env_name="reasoning_gym_env",
        state_cls=ReasoningGymState,
        config=config,
    )


def _whole_number(text: str) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        raise ValueError(f"level={text!r}: expected a whole number from 0, or nothing.") from None


def settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `build_app` from environment variables."""
    return {
        "dataset": environ.get("REASONING_GYM_DATASET", "chain_sum"),
        "level": environ.get("REASONING_GYM_LEVEL", ""),
        "settings": environ.get("REASONING_GYM_SETTINGS", "{}"),
    }


app = build_app(**settings(os.environ))


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    default = settings(os.environ)
    parser = argparse.ArgumentParser(
        prog="python -m openenv.envs.reasoning_gym_env.server.app", description="Serve the datasets of reasoning-gym."
    )
    parser.add_argument(
        "--dataset", default=default["dataset"], help="Ask questions of this dataset (default %(default)s)."
    )
    parser.add_argument(
        "--level", default=default["level"], help="Use this level of its curriculum (default: the dataset's settings)."
    )
    parser.add_argument(
        "--settings", default=default["settings"], help="Its settings as a JSON object (default %(default)s)."
    )
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(args: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(args.dataset, args.level, args.settings, config)


if __name__ == "__main__":
    main()
