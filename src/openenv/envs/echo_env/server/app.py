"""Serves the echo environment: `python -m openenv.envs.echo_env.server.app --port 8000`."""

import argparse
from collections.abc import Sequence

from openenv.core.env_server import create_app, serve
from openenv.envs.echo_env.models import EchoAction, EchoObservation, EchoState
from openenv.envs.echo_env.server.environment import EchoEnvironment

app = create_app(EchoEnvironment, EchoAction, EchoObservation, env_name="echo_env", state_cls=EchoState)


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: arguments of the command line; None: the program's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="Address to listen on (default 127.0.0.1).")
    parser.add_argument("--port", type=int, default=8000, help="Port to listen on (default 8000).")
    args = parser.parse_args(argv)
    serve(app, args.host, args.port)


if __name__ == "__main__":
    main()
