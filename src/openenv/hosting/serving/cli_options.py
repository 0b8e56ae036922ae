"""Command-line options that every environment's server takes: where it listens, and its limits."""

import argparse
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.config import RENAMED_FIELDS, ServerConfig, default_hosts
from openenv.core.env_server.observability.log_context import configure_logging, logging_settings
from openenv.hosting.serving.server import serve

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)


def _addresses(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


_LIMITS: dict[str, tuple[Callable[[str], Any], str]] = {
    "max_sessions": (int, "Sessions at one time"),
    "max_envs_per_session": (int, "Environments of one vector session"),
    "max_queue": (int, "Callers that may wait for a session when the server is full"),
    "queue_timeout_s": (float, "Seconds a caller waits for a session"),
    "idle_timeout_s": (float, "Seconds without a request after which a session is closed"),
    "http_idle_timeout_s": (float, "The same for a session opened over HTTP while no WebSocket plays it"),
    "reconnect_grace_s": (float, "Seconds a session waits for its client to reconnect after the connection broke"),
    "drain_timeout_s": (float, "Seconds that sessions may go on after SIGTERM, while new ones are refused"),
    "step_timeout_s": (float, "Time limit of a step in seconds"),
    "reset_timeout_s": (float, "Time limit of a reset in seconds"),
    "head_timeout_s": (float, "Seconds for the head of an HTTP request to arrive"),
    "body_timeout_s": (float, "Seconds without a byte of an HTTP request's body"),
    "max_snapshots": (int, "Snapshots kept for restore"),
    "max_snapshot_bytes": (int, "Size of all snapshots together in bytes"),
    "max_message_bytes": (int, "Largest message accepted from a client in bytes"),
    "execution": (str, "Where environments run: inline, thread or process"),
    "trusted_proxies": (
        _addresses,
        "Addresses of proxies, with commas, whose X-Forwarded headers are believed; *: all",
    ),
    "record_dir": (Path, "Folder to which every session is recorded"),
}


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add --host, --port and one option for each limit of ServerConfig."""
    parser.add_argument("--host", default="127.0.0.1", help="Address, or unix:/path of a socket (default %(default)s).")
    parser.add_argument("--port", type=int, default=8000, help="Port to listen on (default %(default)s).")
    parser.add_argument("--workers", type=int, default=1,
                        help="Processes that share the sessions behind the port (default %(default)s).")  # fmt: skip
    add_log_options(parser)
    parser.add_argument("--trace", action="store_true", help="Make OpenTelemetry spans (default off).")
    parser.add_argument("--allow-watching", action="store_true",
                        help="Show the sessions, read only, at /web/watch (default off).")  # fmt: skip
    parser.add_argument("--busy-poll", action=argparse.BooleanOptionalAction, default=True,
                        help="Poll for up to 0.5 ms after each message, for lower latency (default on).")  # fmt: skip
    parser.add_argument("--allowed-host", action="append", default=[], metavar="NAME", dest="allowed_hosts",
                        help="Name of this server over loopback, such as a proxy's (default none).")  # fmt: skip
    limits = parser.add_argument_group("limits", "The token that clients must send, if any, comes from OPENENV_TOKEN.")
    for name, (kind, sentence) in _LIMITS.items():
        default = getattr(ServerConfig, name)
        shown = "the environment's choice" if name == "execution" else "off" if default in (None, ()) else default
        limits.add_argument(_option(name), type=kind, default=default, help=f"{sentence} (default {shown}).")
    for former, name in RENAMED_FIELDS.items():
        limits.add_argument(
            _option(former), type=_LIMITS[name][0], default=argparse.SUPPRESS, dest=name, action=_RenamedOption,
            help=argparse.SUPPRESS,
        )  # fmt: skip


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add --log-level and --log-format."""
    parser.add_argument("--log-level", choices=["debug", "info", "warning", "error"],
                        help="Log from this level on (default warning).")  # fmt: skip
    parser.add_argument("--log-format", choices=["text", "json"],
                        help="Log as text or as JSON lines, to stderr (default text).")  # fmt: skip


def apply_log_options(args: argparse.Namespace) -> None:
    """Log as the options say. What they leave out is as the program has configured it, or their default."""
    level, log_format = logging_settings() if logging.getLogger().handlers else (logging.WARNING, "text")
    if args.log_level is not None:
        level = logging.getLevelNamesMapping()[args.log_level.upper()]
    if args.log_format is not None or not logging.getLogger().handlers:
        configure_logging(level, args.log_format or log_format)
    else:
        logging.getLogger().setLevel(level)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class _RenamedOption(argparse.Action):
    """Stores an option under its name of now, with a DeprecationWarning that Python shows by default."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Called by argparse."""
        message = f"{option_string} is called {_option(self.dest)} now"
        warnings.warn_explicit(message, DeprecationWarning, parser.prog, 0, module="__main__")
        setattr(namespace, self.dest, values)


def run_server(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    build: Callable[[argparse.Namespace, ServerConfig], "FastAPI"],
) -> None:
    """Serve what `build` makes of the command line, until interrupted.

    argv: the arguments; None: the program's own. build: a function of a module where there are several workers; its
    ValueError becomes an error of the command line. Logging that the program has configured stays, unless an option
    is given for it.
    """
    args = parser.parse_args(argv)
    apply_log_options(args)
    try:
        config = replace(server_config(args), recorded_options=tuple(_options_of_environment(args)))
        serve(partial(build, args, config), args.host, args.port, workers=args.workers)
    except ValueError as error:
        log.info("failed", exc_info=True)
        parser.exit(2, f"{parser.prog}: error: {error}\n")  # without 40 lines of usage before the reason


def server_options() -> frozenset[str]:
    """The options that every server has, such as `--host`: those of `add_server_options`."""
    of_servers = argparse.ArgumentParser()
    add_server_options(of_servers)
    return frozenset(map(_option, vars(of_servers.parse_args([]))))


def _options_of_environment(args: argparse.Namespace) -> Iterator[str]:
    """The options in `args` that `add_server_options` does not add, with their defaults."""
    known = server_options()
    for name, value in vars(args).items():
        if _option(name) in known:
            continue
        if value is True:
            yield _option(name)
        elif value not in (None, False):
            yield from (_option(name), str(value))


def server_config(args: argparse.Namespace) -> ServerConfig:
    """The limits of a command line. Raises ValueError for an invalid value."""
    limits = {name: getattr(args, name) for name in _LIMITS}
    return ServerConfig(
        **limits,
        allow_watching=args.allow_watching,
        trace=args.trace,
        busy_poll=args.busy_poll,
        allowed_hosts=(*default_hosts(), *args.allowed_hosts),
        token=os.environ.get("OPENENV_TOKEN") or None,
    )
