"""Serves the environment of a name in this process, for `openenv serve` and for the child processes of this package.

`python -m openenv.auto.serving NAME [--host H] [--port P] [--workers N] [options of the environment's server]`
"""

import argparse
import importlib
import os
import runpy
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from openenv.auto.source import IMAGE, Source, resolve
from openenv.core.env_server.config import ServerConfig
from openenv.dialects.names import dialect_spec
from openenv.envs.catalog import CatalogEntry, load
from openenv.hosting.serving.app_loader import load_app, setting_of
from openenv.hosting.serving.cli_options import add_log_options, add_server_options, apply_log_options, server_config
from openenv.hosting.serving.server import serve

if TYPE_CHECKING:
    from fastapi import FastAPI


def serve_source(source: Source, options: Sequence[str], host: str, port: int, workers: int = 1) -> None:
    """Serve an environment until interrupted. Imports from the current folder work, as for other server commands.

    Args:
        source: a package, a folder, a program, or an environment of another standard.
        options: of the environment's server, such as `--game chess`, or limits.
        host, port, workers: as `openenv.serve` has them.

    Raises:
        LookupError, ImportError, RuntimeError, ValueError: for what cannot be served, with the remedy.
        OSError: if it cannot listen.
    """
    sys.path.insert(0, os.getcwd())
    where = ["--host", host, "--port", str(port)]
    if source.kind == "dialect":
        make_app = partial(_dialect_app, source.name, limits(_log_as_given(options)))
        serve(make_app() if workers == 1 else make_app, host, port, workers=workers)
        return
    if source.target is None:
        importlib.import_module(_server_of(source)).main([*options, *where, "--workers", str(workers)])
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


def installed(entry: CatalogEntry) -> CatalogEntry:
    """Return `entry`. Raises RuntimeError, with the remedy, where a module or a program is missing."""
    if not entry.is_installed or entry.missing_programs:
        needed = ", ".join((*entry.requires, *entry.programs))
        raise RuntimeError(f"environment {entry.name!r} needs {needed}: {entry.remedy}")
    return entry


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
    """The module that serves a bundled environment. Raises LookupError for one that an image alone serves."""
    assert source.info is not None
    try:
        entry = load(source.info.key)
    except LookupError:
        raise LookupError(
            f"{source.name} of {source.info.package} is served by its image alone: openenv serve "
            f"{IMAGE}{source.info.default_image}"
        ) from None
    return installed(entry).server


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


def main() -> None:
    """Serve the environment of the first argument. Exit code 1, with one line, for an error that a user can correct."""
    parser = argparse.ArgumentParser("openenv.auto.serving", allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=1)
    name, *rest = sys.argv[1:]
    args, options = parser.parse_known_args(rest)
    try:
        serve_source(resolve(name), options, args.host, args.port, args.workers)
    except (ValueError, LookupError, OSError, RuntimeError, ImportError) as error:  # border: of a command line
        sys.exit(f"openenv: {error}")


if __name__ == "__main__":
    main()
