"""The health check of images: asks the server at the --host and --port of the container's first process.

It runs as a file and imports nothing of the package, which would take most of a second each time.
"""

import socket
import sys
from collections.abc import Sequence

_TIMEOUT_S = 3.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def is_healthy(command: Sequence[str]) -> bool:
    """Whether the server of this command line answers /health with 200. Raises OSError if it does not answer."""
    host, port = _last(command, "--host", "127.0.0.1"), int(_last(command, "--port", "8000"))
    if host.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_TIMEOUT_S)
        connection.connect(host.removeprefix("unix:"))
    else:
        connection = socket.create_connection((_EVERYWHERE.get(host, host), port), _TIMEOUT_S)
    with connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with connection.makefile("rb") as answer:
            return answer.readline().split(b" ")[1:2] == [b"200"]


def _last(command: Sequence[str], option: str, default: str) -> str:
    """The value of an option, as `--host VALUE` or `--host=VALUE`; the last one is the one that counts."""
    value = default
    for position, argument in enumerate(command):
        if argument.startswith(f"{option}="):
            value = argument.partition("=")[2]
        elif argument == option:
            value = command[position + 1]
    return value


if __name__ == "__main__":
    with open("/proc/1/cmdline", encoding="utf-8", errors="replace") as first:
        sys.exit(not is_healthy(first.read().split("\0")))
