"""Serves Atari games: `python -m openenv.envs.atari_env.server.app --game pong --port 8007`.

Environment variables configure `app`: ATARI_GAME (default pong), ATARI_OBS_TYPE (rgb), ATARI_FRAMESKIP (4),
ATARI_REPEAT_ACTION_PROB (0.25), ATARI_FULL_ACTION_SPACE (false), ATARI_MODE and ATARI_DIFFICULTY (the game's own),
ATARI_MAX_FRAMES (108000), and ATARI_MAX_STEPS (no limit).
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, run_server
from openenv.envs.atari_env.models import AtariAction, AtariObservation, AtariState
from openenv.envs.atari_env.server.environment import AtariEnvironment

_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def build_app(config: ServerConfig | None = None, **defaults: Any) -> FastAPI:
    """Return the application that serves a game. defaults: fields of AtariChoice as text or as values; empty texts are
    left out. Raises ValueError, naming the field, for a wrong one."""
    fields = {name: _value(name, value) for name, value in defaults.items() if value != ""}
    AtariEnvironment(**fields)  # a wrong setting fails here, not at the first session
    return create_app(
        partial(AtariEnvironment, **fields),
        AtariAction,
        AtariObservation,
        env_name="atari_env",
        state_cls=AtariState,
        config=config,
    )


def _value(name: str, value: Any) -> Any:
    """The value that a text means for a field. Others are returned as they are, for AtariChoice to check."""
    if not isinstance(value, str) or name in ("game_name", "obs_type"):
        return value
    if name == "full_action_space":
        return _TRUTHS.get(value.lower(), value)
    try:
        return float(value) if name == "repeat_action_probability" else int(value)
    except ValueError:
        return value


def settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `build_app` from environment variables."""
    return {
        "game_name": environ.get("ATARI_GAME", "pong"),
        "obs_type": environ.get("ATARI_OBS_TYPE", "rgb"),
        "frameskip": environ.get("ATARI_FRAMESKIP", "4"),
        "repeat_action_probability": environ.get("ATARI_REPEAT_ACTION_PROB", "0.25"),
        "full_action_space": environ.get("ATARI_FULL_ACTION_SPACE", "false"),
        "mode": environ.get("ATARI_MODE", ""),
        "difficulty": environ.get("ATARI_DIFFICULTY", ""),
        "max_frames": environ.get("ATARI_MAX_FRAMES", "108000"),
        "max_steps": environ.get("ATARI_MAX_STEPS", ""),
    }


app = build_app(**settings(os.environ))

_OPTIONS = {
    "game_name": ("--game", "Play this game, in snake_case (default %(default)s)."),
    "obs_type": ("--obs-type", "Observe frames as rgb or grayscale, or the memory as ram (default %(default)s)."),
    "frameskip": ("--frameskip", "Repeat an action for so many frames (default %(default)s)."),
    "repeat_action_probability": (
        "--repeat-action-probability",
        "Let a frame repeat the action of the frame before with this probability (default %(default)s).",
    ),
    "full_action_space": (
        "--full-action-space", "Allow all 18 actions (true), or the game's own (default %(default)s)."
    ),
    "mode": ("--mode", "Play this mode of the game, a number (default: the game's own)."),
    "difficulty": ("--difficulty", "Play at this difficulty of the game, a number (default: the game's own)."),
    "max_frames": ("--max-frames", "Truncate episodes after so many frames (default %(default)s)."),
    "max_steps": ("--max-steps", "Truncate episodes after so many steps (default: no limit)."),
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    default = settings(os.environ)
    parser = argparse.ArgumentParser(
        prog="python -m openenv.envs.atari_env.server.app", description="Serve an Atari 2600 game as an environment."
    )
    for name, (option, text) in _OPTIONS.items():
        parser.add_argument(option, dest=name, default=default[name], help=text)
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(args: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(config, **{name: getattr(args, name) for name in _OPTIONS})


if __name__ == "__main__":
    main()
