"""What clients without good manners cost a server: `python -m benchmarks.abuse [--workers N]`.

A server in a process of its own gets 1,000 connections that stay silent or stop half way, and 100 MB of headers over a
few others. The table shows how far its memory grew, and the files that it has open beyond those at its start, after
30 s. It exits with 1 above a limit.
"""

import argparse
import contextlib
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from benchmarks.peers import resident_mb
from openenv.core.containers.local_process import LocalServer

MODULE = "openenv.envs.echo_env.server.app"
NUM_CONNECTIONS = 1000
HEADER_BYTES = 100_000_000
WAIT_S = 30.0
MEMORY_LIMIT_MB = 20.0
FILES_LIMIT = 0
HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
UPGRADE = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
BEGINNINGS = (b"", HEAD, UPGRADE)
"""What the connections send, in turns; a client then sends nothing more."""


def processes_of(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def open_files(pids: Sequence[int]) -> int:
    """Return the files that the processes have open."""
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)


class Memory:
    """How far the memory of a server has grown."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._before = self._sum()
        self.growth_mb = 0.0

    def look(self) -> None:
        """Keep the largest growth."""
        self.growth_mb = max(self.growth_mb, self._sum() - self._before)

    def _sum(self) -> float:
        return sum(map(resident_mb, self._pids))


def connect(url: str) -> socket.socket:
    """Return a connection to the server."""
    where = urlsplit(url)
    return socket.create_connection((where.hostname, where.port or 80))


@contextlib.contextmanager
def half_open(url: str, memory: Memory) -> Iterator[None]:
    """Keep connections that are silent, or stop within their first head."""
    with contextlib.ExitStack() as stack:
        for number in range(NUM_CONNECTIONS):
            connection = stack.enter_context(connect(url))
            connection.sendall(BEGINNINGS[number % len(BEGINNINGS)])
            if number % 50 == 0:
                memory.look()
        yield


@contextlib.contextmanager
def endless_heads(url: str, memory: Memory) -> Iterator[None]:
    """Send 100 MB of headers, over a new connection whenever the server ends one."""
    left, headers = HEADER_BYTES, b"X-Header: value\r\n" * 4000
    while left > 0:
        with connect(url) as connection, contextlib.suppress(ConnectionError):
            left -= connection.send(HEAD)
            while left > 0:
                left -= connection.send(headers)
                memory.look()
    yield


ABUSES: dict[str, Callable[[str, Memory], contextlib.AbstractContextManager[None]]] = {
    f"{NUM_CONNECTIONS:,} silent or half-open connections": half_open,
    f"{HEADER_BYTES // 1_000_000} MB of headers": endless_heads,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Abuse a server and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1, help="Workers of the server (default 1).")
    args = parser.parse_args(argv)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    table = Table("abuse", title=f"A server with {args.workers} worker{'s' * (args.workers > 1)}")
    for heading in ("memory, MB more", "limit", f"open files more, after {WAIT_S:g} s", "limit"):
        table.add_column(heading, justify="right")
    is_robust = True
    for name, abuse in ABUSES.items():
        with LocalServer(MODULE, ["--workers", str(args.workers)]) as server:
            pids = processes_of(server.pid)
            memory, files = Memory(pids), open_files(pids)
            with abuse(server.base_url, memory):
                ended = time.monotonic() + WAIT_S
                while time.monotonic() < ended:
                    time.sleep(0.2)
                    memory.look()
                files = open_files(pids) - files
        figures = (f"{memory.growth_mb:.1f}", f"{MEMORY_LIMIT_MB:g}", str(files), str(FILES_LIMIT))
        table.add_row(name, *figures)
        is_robust &= memory.growth_mb <= MEMORY_LIMIT_MB and files <= FILES_LIMIT
    Console(width=120).print(table)
    sys.exit(not is_robust)


if __name__ == "__main__":
    main()
