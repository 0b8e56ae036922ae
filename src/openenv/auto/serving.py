"""Serves the environment of a name in this process, for `openenv serve` and for child processes of this package."""

import argparse
import importlib
import logging
import os
import runpy
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from openenv.auto.discovery import UnknownEnvironment
from openenv.auto.resolver import IMAGE, Source, resolve
from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.observability.log_context import configure_logging
from openenv.dialects.names import dialect_spec
from openenv.envs.catalog import load
from openenv.hosting.serving.app_loader import load_app, setting_of, with_colon
from openenv.hosting.serving.cli_options import add_log_options, add_server_options, apply_log_options, server_config
from openenv.hosting.serving.server import serve

if TYPE_CHECKING:
    from fastapi import FastAPI


def serve_named(arguments: Sequence[str]) -> None:
    """Serve until interrupted: `NAME [--host HOST] [--port PORT] [--workers N]`, and options of its server.

    Raises what `servable` and `serve_source` raise.
    """
    configure_logging(logging.WARNING)
    parser = argparse.ArgumentParser("python -m openenv.auto", allow_abbrev=False, add_help=False)
    parser.add_argument("name")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=1)
    args, options = parser.parse_known_args(arguments)
    serve_source(servable(args.name), options, args.host, args.port, args.workers)


def servable(name: str) -> Source:
    """What a name stands for, if a server of it can be started.

    Raises LookupError that also says how to name one's own, ValueError for a server that runs already.
    """
    try:
        source = resolve(name)
    except UnknownEnvironment as error:
        if name.endswith(".py") or Path(name).is_dir():
            raise
        raise LookupError(
            f"{error} Write your own as MODULE:NAME, such as {with_colon(name)}, or as a folder with openenv.yaml"
        ) from None
    if source.kind == "url":
        raise ValueError(f"{name} is a server that runs already: other commands take its URL as it is")
    if source.space is not None:
        space = source.space
        raise LookupError(
            f"there is no folder {name} with an openenv.yaml. If the Space is meant, serve its image, "
            f"{IMAGE}{space.image()}, or use the server that runs at {space.base_url}"
        )
    return source


def serve_source(source: Source, options: Sequence[str], host: str, port: int, workers: int = 1) -> None:
    """Serve an environment until interrupted. Imports from the current folder work, as for other server commands.

    Args:
        source: what `servable` returns.
        options: of the environment's server, such as `--game chess`, or limits.
        host, port, workers: as `openenv.serve` has them.

    Raises:
        LookupError, ImportError, RuntimeError, ValueError: for what cannot be served, with the remedy, such as an
            image, which `openenv serve` alone runs.
        OSError: if it cannot listen.
    """
    if source.kind == "image":
        raise ValueError(f"{source.name}: an image is served in a container of its own: openenv serve {source.name}")
    sys.path.insert(0, os.getcwd())
    where = ["--host", host, "--port", str(port)]
    if source.kind == "dialect":
        make_app = partial(_dialect_app, source.name, limits(_log_as_given(options)))
        serve(make_app() if workers == 1 else make_app, host, port, workers=workers)
        return
    if source.target is None:
        importlib.import_module(_server_of(source)).main([*source.options, *options, *where, "--workers", str(workers)])
        return
    target, paths = source.target
    sys.path[:0] = paths
    if ":" in target:
        given = _log_as_given(options)
        _serve_target(target, limits(given), bool(given), host, port, workers)
    else:
        _run_program(target, [*options, *where, *(["--workers", str(workers)] if workers != 1 else [])])


def limits(options: Sequence[str]) -> ServerConfig:
    """The limits in the options, and the token, of an environment that is served by its class or factory."""
    parser = argparse.ArgumentParser("openenv serve MODULE:NAME")
    add_server_options(parser)
    return server_config(parser.parse_args(options))


def _serve_target(target: str, config: ServerConfig, is_given: bool, host: str, port: int, workers: int) -> None:
    """Serve `MODULE:NAME`. is_given: whether options set the limits, which an application refuses."""
    make_app = partial(load_app, target, config if is_given else None, default=config)
    app = make_app()
    if config.token is not None and getattr(setting_of(app, "config"), "token", None) != config.token:
        sys.stderr.write(f"{target} is an application with limits of its own: it does not check OPENENV_TOKEN\n")
    serve(app if workers == 1 else make_app, host, port, workers=workers)


def _dialect_app(name: str, config: ServerConfig) -> "FastAPI":
    from openenv.web.application import app_of  # loads FastAPI

    return app_of(dialect_spec(name), config)


def _server_of(source: Source) -> str:
    """The module that serves a bundled environment.

    Raises LookupError for one that an image alone serves, RuntimeError, with the remedy, where a module or a program
    is missing.
    """
    assert source.info is not None
    try:
        entry = load(source.info.key)
    except LookupError:
        raise LookupError(
            f"{source.name} of {source.info.package} is served by its image alone: openenv serve "
            f"{IMAGE}{source.info.default_image}"
        ) from None
    if not entry.is_installed or entry.missing_programs:
        needed = ", ".join((*entry.requires, *entry.programs))
        raise RuntimeError(f"environment {entry.name!r} needs {needed}: {entry.remedy}")
    return entry.server


def _log_as_given(options: Sequence[str]) -> list[str]:
    """Configure logging by --log-level and --log-format. Returns the other options."""
    parser = argparse.ArgumentParser("openenv serve MODULE:NAME", add_help=False)
    add_log_options(parser)
    args, others = parser.parse_known_args(options)
    apply_log_options(args)
    return others


def _run_program(module: str, args: list[str]) -> None:
    sys.argv = [module, *args]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
