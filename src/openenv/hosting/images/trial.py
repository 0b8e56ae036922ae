"""Starts a server in an image and stops it when it is healthy.

`python -m openenv.hosting.images.trial COMMAND [ARGUMENT ...]`: the command gets --host and --port. The exit
code is 1, with the server's output, if it does not become healthy.
"""

import sys
from collections.abc import Sequence

from openenv.core.errors import NotReady
from openenv.hosting.server_process import ServerProcess, free_port

_TIMEOUT_S = 120.0


def main(command: Sequence[str]) -> None:
    """Run the command until it is healthy. Raises NotReady, with its output, if it is not."""
    port = free_port()
    server = ServerProcess([*command, "--host", "127.0.0.1", "--port", str(port)], f"http://127.0.0.1:{port}")
    try:
        server.wait_until_healthy(_TIMEOUT_S)
    finally:
        server.stop()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except NotReady as error:
        sys.exit(str(error))
