"""Command-line options that every environment's server takes: where it listens, and its limits."""

import argparse
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.episode_log import configure_logging
from openenv.core.env_server.http_server import serve

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from fastapi import FastAPI

_LIMITS: dict[str, tuple[Callable[[str], Any], str]] = {
    "max_sessions": (int, "Sessions at one time"),
    "max_waiting": (int, "Callers that may wait for a session when the server is full"),
    "max_wait_s": (float, "Seconds a caller waits for a session"),
    "idle_timeout_s": (float, "Seconds without a request after which a session ends"),
    "grace_s": (float, "Seconds a session waits for its client to come back after the connection broke"),
    "step_timeout_s": (float, "Seconds a step may take"),
    "reset_timeout_s": (float, "Seconds a reset may take"),
    "max_snapshots": (int, "Snapshots kept for restore"),
    "max_snapshot_bytes": (int, "All snapshots together, in bytes"),
    "max_message_bytes": (int, "Largest message taken from a client, in bytes"),
    "execution": (str, "Where environments run: inline, thread or process"),
    "record_dir": (Path, "Folder to record every session to"),
}


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add --host, --port and one option for each limit of ServerConfig."""
    parser.add_argument("--host", default="127.0.0.1", help="Address, or unix:/path of a socket (default %(default)s).")
    parser.add_argument("--port", type=int, default=8000, help="Port to listen on (default %(default)s).")
    parser.add_argument("--workers", type=int, default=1,
                        help="Processes that share the sessions behind the port (default %(default)s).")  # fmt: skip
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error"],
                        help="Log from this level on (default %(default)s).")  # fmt: skip
    parser.add_argument("--log-format", default="text", choices=["text", "json"],
                        help="Log as text or as JSON lines, to stderr (default %(default)s).")  # fmt: skip
    parser.add_argument("--trace", action="store_true", help="Make OpenTelemetry spans (default off).")
    limits = parser.add_argument_group("limits", "A token, if clients must have one, is read from OPENENV_TOKEN.")
    for name, (kind, sentence) in _LIMITS.items():
        default = getattr(ServerConfig, name)
        told = "the environment's choice" if name == "execution" else "off" if default is None else default
        option = f"--{name.replace('_', '-')}"
        limits.add_argument(option, type=kind, default=default, help=f"{sentence} (default {told}).")


def run_server(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    build: Callable[[argparse.Namespace, ServerConfig], "FastAPI"],
) -> None:
    """Serve what `build` makes of the command line until interrupted; a ValueError of its is the user's to mend.

    argv: the arguments; None: the program's own. build: a function of a module, where there are to be several workers.
    A program that logs already keeps its way of logging.
    """
    args = parser.parse_args(argv)
    if not logging.getLogger().handlers:
        configure_logging(logging.getLevelNamesMapping()[args.log_level.upper()], args.log_format)
    try:
        serve(partial(build, args, server_config(args)), args.host, args.port, workers=args.workers)
    except ValueError as error:
        log.info("failed", exc_info=True)
        parser.error(str(error))


def server_config(args: argparse.Namespace) -> ServerConfig:
    """The limits that were asked for. Raises ValueError for a value that makes no sense."""
    limits = {name: getattr(args, name) for name in _LIMITS}
    return ServerConfig(**limits, trace=args.trace, token=os.environ.get("OPENENV_TOKEN") or None)
