"""`openenv serve`: run the server of an environment."""

import signal
import sys
from pathlib import Path

import typer

from openenv.auto.environment import named_environment
from openenv.auto.resolver import IMAGE
from openenv.auto.sandboxed_server import SandboxedServer
from openenv.auto.serving import limits, servable, serve_source
from openenv.cli.completion import environment_names
from openenv.cli.reload import run_reloading
from openenv.core.client.owned_server import BoundProvider, OwnedServer
from openenv.hosting.runtime.docker import LocalDockerProvider
from openenv.hosting.serving.listeners import announce, warn_if_exposed
from openenv.hosting.serving.program_exit import exit_on_sigterm
from openenv.hosting.serving.server import serve as serve_app

EXAMPLE = "Examples: `openenv serve openspiel --game blackjack --port 8004`, `openenv serve my_env.server.app:app`, "
EXAMPLE += "`openenv serve my_env.environment:MyEnvironment`, `openenv serve ./my_env`"
PASSES_OPTIONS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def serve(
    context: typer.Context,
    environment: str = typer.Argument(
        ".",
        metavar="[ENVIRONMENT]",
        autocompletion=environment_names,
        help="Serve this environment of `openenv envs`; an application, Environment class or factory as MODULE:NAME or "
        "FILE.py:NAME; the environment in this folder (with openenv.yaml; default: the current folder); the one in the "
        "image of docker:IMAGE; gymnasium:ID; or one of another standard, verifiers:NAME, ors:URL, nemo-gym:URL or "
        "harbor:PATH.",
    ),
    host: str = typer.Option("127.0.0.1", help="Listen on this address, or on a socket at unix:/path."),
    port: int = typer.Option(8000, "--port", "-p", help="Listen on this port; 0 for a free one."),
    workers: int = typer.Option(1, help="Share the sessions among this many processes."),
    dialect: str = typer.Option(
        None, help="Serve over the routes of another standard: ors, the Open Reward Standard (default: OpenEnv)."
    ),
    sandbox: bool = typer.Option(False, help="Run the server where it reaches its own files and this port alone."),
    reload: bool = typer.Option(
        False, "--reload", help="Start the server again when a Python file of the environment changes (default: not)."
    ),
) -> None:
    """Serve an environment until interrupted. Other options are those of the environment's server: `--game chess`, or
    any limit (`python -m openenv.envs.echo_env.server.app --help` lists them)."""
    if dialect is not None:
        _serve_dialect(dialect, environment, context.args, host, port, workers)
        return
    source = servable(environment)
    if source.kind == "image":
        _serve_image(environment.removeprefix(IMAGE), context.args, host, port, workers)
        return
    if reload:
        if sandbox:
            raise ValueError("--reload and --sandbox: give one of them")
        folder = source.folder if source.kind == "folder" else Path()
        command = [argument for argument in sys.argv[1:] if argument != "--reload"]
        run_reloading([sys.executable, "-m", "openenv", *command], folder)
    if sandbox:
        place = str(source.folder) if source.kind == "folder" else environment
        _serve_sandboxed(place, context.args, host, port, workers)
        return
    serve_source(source, context.args, host, port, workers)


def _serve_dialect(dialect: str, environment: str, options: list[str], host: str, port: int, workers: int) -> None:
    """Serve an environment of any name over another standard, from a server of it that runs as long."""
    if dialect != "ors":
        raise ValueError(f"--dialect {dialect}: there is ors, the Open Reward Standard")
    if options or workers != 1:
        given = " ".join(options) or f"--workers {workers}"
        raise ValueError(f"{given} cannot be set with --dialect: serve the environment with it, and give that URL")
    from openenv.integrations.dialects.ors_server import ors_app  # loads a client

    with named_environment(environment).served() as served:
        serve_app(ors_app(served), host, port)


def _serve_image(image: str, options: list[str], host: str, port: int, workers: int) -> None:
    """Run a container of the image until interrupted. Raises ValueError for options, and ContainerFault."""
    if options or host != "127.0.0.1" or workers != 1:
        raise ValueError(
            f"{IMAGE}{image}: only --port can be set here, on the loopback interface. The server reads other options "
            f"from environment variables: docker run --env NAME=VALUE --publish {port}:8000 {image}"
        )
    server = OwnedServer(BoundProvider(LocalDockerProvider, image, port=port), is_running=False)
    try:
        server.start()
        announce(f"{IMAGE}{image}", host, port)
        while True:
            signal.pause()
    finally:
        server.stop()


def _serve_sandboxed(environment: str, options: list[str], host: str, port: int, workers: int) -> None:
    """Run the server in a sandbox until interrupted. Raises ValueError for workers, ContainerFault, OSError."""
    if workers != 1:
        raise ValueError(f"--workers {workers}: a server in a sandbox is one process. Leave it out, or --sandbox")
    warn_if_exposed(host, limits([]))
    server = SandboxedServer(environment, options, relay=sys.stderr.buffer)
    exit_on_sigterm()
    try:
        server.start(port, host=host)
        announce(environment, host, port)
        missing = [f"{layer} {state}" for layer, state in server.layers.items() if state != "on"]
        typer.echo(f"sandbox: {'; '.join(missing) or 'all layers are on'}", err=True)
        typer.echo(f"the server has ended: {server.wait()}", err=True)
    finally:
        server.stop()
    raise typer.Exit(1)
