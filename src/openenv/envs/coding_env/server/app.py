"""Serves the coding environment: `python -m openenv.envs.coding_env.server.app --packages numpy --port 8000`.

Environment variables configure `app`: CODING_SECONDS (default 10), CODING_MEMORY_MB (default 512), CODING_PROCESSES
(default 64), CODING_PACKAGES (names with commas, default none), CODING_SHELL (1 allows it), and CODING_LEVEL
(namespaces or landlock, default the strongest that works).
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, run_server
from openenv.envs.coding_env.models import CodeAction, CodeObservation, CodeState
from openenv.envs.coding_env.server.environment import CodingEnvironment
from openenv.envs.coding_env.server.settings import CodingSettings
from openenv.envs.reset_values import require_choice
from openenv.hosting.sandbox.limits import SandboxLimits
from openenv.hosting.sandbox.python_files import installed

_LEVELS = ("", "namespaces", "landlock")


def build_app(
    seconds: float,
    memory_mb: int,
    processes: int,
    packages: str,
    level: str,
    config: ServerConfig | None = None,
    *,
    shell: bool = False,
) -> FastAPI:
    """Return the application that serves the coding environment. Raises ValueError, naming the field, for wrong ones.

    packages: names with commas between them. level: of the sandbox; empty: the strongest that works here.
    """
    settings = CodingSettings(
        seconds=seconds,
        limits=SandboxLimits(memory_bytes=memory_mb << 20, processes=processes),
        packages=tuple(name.strip() for name in packages.split(",") if name.strip()),
        shell=shell,
        level=require_choice("level", level, _LEVELS) or None,  # type: ignore[arg-type]
    )
    installed(settings.packages)  # a wrong name fails here, not at the first session
    return create_app(
        partial(CodingEnvironment, settings),
        CodeAction,
        CodeObservation,
        state_cls=CodeState,
        env_name="coding_env",
        config=config,
    )


def settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `build_app` from environment variables."""
    return {
        "seconds": float(environ.get("CODING_SECONDS", "10")),
        "memory_mb": int(environ.get("CODING_MEMORY_MB", "512")),
        "processes": int(environ.get("CODING_PROCESSES", "64")),
        "packages": environ.get("CODING_PACKAGES", ""),
        "level": environ.get("CODING_LEVEL", ""),
        "shell": environ.get("CODING_SHELL", "") == "1",
    }


app = build_app(**settings(os.environ))


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    default = settings(os.environ)
    parser = argparse.ArgumentParser(
        prog="python -m openenv.envs.coding_env.server.app", description="Serve Python in sandboxes."
    )
    for name, kind, text in (
        ("seconds", float, "Stop a program after this many seconds"),
        ("memory-mb", int, "Memory of a sandbox in MiB"),
        ("processes", int, "Processes and threads of a sandbox"),
        ("packages", str, "Installed packages that programs may import, with commas"),
    ):
        value = default[name.replace("-", "_")]
        parser.add_argument(f"--{name}", type=kind, default=value, help=f"{text} (default {value or 'none'}).")
    parser.add_argument(
        "--level", choices=_LEVELS, default=default["level"], help="Of the sandbox (default: the strongest that works)."
    )
    parser.add_argument(
        "--shell", action="store_true", default=default["shell"], help="Allow commands of the shell (default: not)."
    )
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(args: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(args.seconds, args.memory_mb, args.processes, args.packages, args.level, config, shell=args.shell)


if __name__ == "__main__":
    main()
