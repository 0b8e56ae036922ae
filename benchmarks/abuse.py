"""What clients without good manners cost a server: `python -m benchmarks.abuse [--workers N] [--abandon MINUTES]`.

A server in a process of its own gets 1,000 connections that stay silent or stop half way, and 100 MB of headers over a
few others. The table shows how far its memory grew, and the files that it has open beyond those at its start, after
30 s. With `--abandon`, 10,000 clients open a session one after another, play a step and vanish; the table shows what is
left when the server has ended all of their sessions. It exits with 1 above a limit.
"""

import argparse
import contextlib
import os
import resource
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from benchmarks.peers import resident_mb
from openenv.core.net.frames import TEXT, client_frame
from openenv.core.net.handshake import ClientHandshake
from openenv.core.net.websocket_protocol import websocket_uri
from openenv.core.wire.constants import SUBPROTOCOL
from openenv.hosting.local_process import LocalServer

MODULE = "openenv.envs.echo_env.server.app"
NUM_CONNECTIONS = 1000
HEADER_BYTES = 100_000_000
WAIT_S = 30.0
MEMORY_LIMIT_MB = 20.0
FILES_LIMIT = 0
NUM_SESSIONS = 10_000
GRACE_S = 60.0
"""How long the server waits for a client to come back, by default."""
EPISODE = (b'{"type":"reset","id":"1"}', b'{"type":"step","id":"2","data":{"message":"a"}}')
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

    def look(self) -> float:
        """Keep the largest growth, and return that of now."""
        now_mb = self._sum() - self._before
        self.growth_mb = max(self.growth_mb, now_mb)
        return now_mb

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


def abandon(url: str, memory: Memory, minutes: float) -> None:
    """Open sessions, spread over that time, and leave each without a word after its first step."""
    uri = websocket_uri(url)
    began, pause_s = time.monotonic(), 60 * minutes / NUM_SESSIONS
    for number in range(NUM_SESSIONS):
        with connect(url) as connection:
            handshake = ClientHandshake(uri, [SUBPROTOCOL], {})
            connection.sendall(handshake.request)
            while handshake.feed(connection.recv(1 << 16)) is None:
                pass
            connection.sendall(b"".join(client_frame(TEXT, request) for request in EPISODE))
            connection.recv(1 << 16)
        if number % 50 == 0:
            memory.look()
        time.sleep(max(0.0, began + (number + 1) * pause_s - time.monotonic()))


def abandoned_row(minutes: float, options: Sequence[str]) -> tuple[list[str], bool]:
    """Return the row of the sessions that were abandoned, and whether nothing of them is left."""
    with LocalServer(MODULE, ["--execution", "thread", *options]) as server:
        pids = processes_of(server.pid)
        memory, files, threads = Memory(pids), open_files(pids), num_threads(pids)
        abandon(server.base_url, memory, minutes)
        gives_up_at = time.monotonic() + 2 * GRACE_S
        while (sessions := num_sessions(server.base_url)) and time.monotonic() < gives_up_at:
            time.sleep(1.0)
        time.sleep(1.0)  # the server closes the connection of the last question
        files, threads, left_mb = open_files(pids) - files, num_threads(pids) - threads, memory.look()
    row = [f"{NUM_SESSIONS:,} sessions abandoned over {minutes:g} min: {sessions} sessions, {threads} threads more"]
    row += [f"{left_mb:.1f}; {memory.growth_mb:.1f} at most", "", str(files), str(FILES_LIMIT)]
    return row, sessions == 0 and threads <= 0 and files <= FILES_LIMIT


def num_threads(pids: Sequence[int]) -> int:
    """Return the threads of the processes."""
    return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids)


def num_sessions(url: str) -> int:
    """Return the sessions that are open, as the server's metrics say."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as response:
        lines = response.read().decode().splitlines()
    return int(float(next(line for line in lines if line.startswith("openenv_sessions ")).split()[1]))


def main(argv: Sequence[str] | None = None) -> None:
    """Abuse a server and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1, help="Workers of the server (default 1).")
    parser.add_argument("--abandon", type=float, metavar="MINUTES",
                        help="Abandon sessions over that time instead; 10 is the figure to quote.")  # fmt: skip
    args = parser.parse_args(argv)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    table = Table("abuse", title=f"A server with {args.workers} worker{'s' * (args.workers > 1)}")
    for heading in ("memory, MB more", "limit", f"open files more, after {WAIT_S:g} s", "limit"):
        table.add_column(heading, justify="right")
    is_robust = True
    if args.abandon:
        row, is_robust = abandoned_row(args.abandon, ["--workers", str(args.workers)])
        table.add_row(*row)
    for name, abuse in () if args.abandon else ABUSES.items():
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
