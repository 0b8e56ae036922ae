"""What one client that sends without a pause leaves to the others: `python -m benchmarks.fairness`.

A process of its own floods a server with small frames of one kind, over one connection, and reads what comes back.
Meanwhile another client steps its session and asks for /health, with a pause of 20 ms. It exits with 1 above a limit.
"""

import argparse
import contextlib
import select
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from openenv.core.net.frames import PING, PONG, TEXT, client_frame
from openenv.core.net.handshake import ClientHandshake
from openenv.core.net.websocket_protocol import websocket_uri
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.hosting.local_process import LocalServer

MODULE = "openenv.envs.echo_env.server.app"
STEP_LIMIT_MS, HEALTH_LIMIT_MS = 50.0, 200.0
"""Of the medians."""
PAUSE_S = 0.02
CHUNK_BYTES = 1 << 17
KINDS = {
    "steps": ("/ws", client_frame(TEXT, b'{"type":"step","data":{"message":"a"}}')),
    "pings": ("/ws", client_frame(PING, b"a")),
    "empty pongs": ("/ws", client_frame(PONG, b"")),
    "requests to /mcp": ("/mcp", client_frame(TEXT, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')),
    "empty pongs to /mcp": ("/mcp", client_frame(PONG, b"")),
}
FLOODS = [(execution, kind) for execution in ("inline", "thread") for kind in ("none", *KINDS)][:-2]
"""Environments and kinds of frames. /mcp plays no environment here, so it is flooded once."""


class Measured(NamedTuple):
    """What the other client saw: milliseconds of its steps and of /health, and MB/s that the flood sent."""

    steps_ms: list[float]
    health_ms: list[float]
    flood_mb_s: float


def flood(url: str, kind: str, seconds: float) -> None:
    """Send frames for that long, and read what comes back; print the bytes sent."""
    path, frame = KINDS[kind]
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port or 80)) as connection:
        handshake = ClientHandshake(websocket_uri(url), ["flood"], {})
        connection.sendall(handshake.request.replace(b"GET /ws ", f"GET {path} ".encode()))
        while handshake.feed(connection.recv(1 << 16)) is None:
            pass
        connection.setblocking(False)
        frames = memoryview(frame * (CHUNK_BYTES // len(frame)))
        sent, ended = 0, time.perf_counter() + seconds
        print("flooding", flush=True)
        while time.perf_counter() < ended:
            readable, writable, _ = select.select([connection], [connection], [], 0.1)
            if readable and not connection.recv(1 << 20):
                raise ConnectionError("the server closed the connection")
            if writable:
                sent += connection.send(frames[sent % len(frames) :])
        print(sent, flush=True)


@contextlib.contextmanager
def flooding(url: str, kind: str, seconds: float) -> Iterator["subprocess.Popen[str]"]:
    """A process that floods the server until the block ends."""
    command = [sys.executable, "-m", "benchmarks.fairness", "--flood", url, kind, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.wait(60)


def measure(url: str, kind: str, seconds: float) -> Measured:
    """Play beside a flood of that kind."""
    steps_ms: list[float] = []
    health_ms: list[float] = []
    with contextlib.ExitStack() as stack:
        env = stack.enter_context(EchoEnv(url))
        env.reset()
        process = stack.enter_context(flooding(url, kind, seconds)) if kind != "none" else None
        ended = time.perf_counter() + seconds - 0.1
        while (began := time.perf_counter()) < ended:
            env.step(EchoAction(message="hello"))
            stepped = time.perf_counter()
            urllib.request.urlopen(f"{url}/health", timeout=60).close()
            health_ms.append(1e3 * (time.perf_counter() - stepped))
            steps_ms.append(1e3 * (stepped - began))
            time.sleep(PAUSE_S)
        sent = int(process.stdout.readline()) if process is not None and process.stdout is not None else 0
    return Measured(steps_ms, health_ms, sent / seconds / 1e6)


def main(argv: Sequence[str] | None = None) -> None:
    """Flood, or measure beside each flood and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.5, help="Length of each flood (default 1.5).")
    parser.add_argument("--flood", nargs=3, metavar=("URL", "KIND", "SECONDS"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.flood:
        flood(args.flood[0], args.flood[1], float(args.flood[2]))
        return
    table = Table("environment", "flood", title="Beside one client that sends without a pause")
    for heading in ("sent, MB/s", "step, median ms", "p99 ms", "limit ms", "/health, median ms", "limit ms"):
        table.add_column(heading, justify="right")
    is_fair = True
    with contextlib.ExitStack() as stack:
        servers = {
            execution: stack.enter_context(LocalServer(MODULE, ["--execution", execution]))
            for execution in ("inline", "thread")
        }
        for execution, kind in FLOODS:
            steps_ms, health_ms, flood_mb_s = measure(servers[execution].base_url, kind, args.seconds)
            step, health = statistics.median(steps_ms), statistics.median(health_ms)
            p99 = statistics.quantiles(steps_ms, n=100, method="inclusive")[-1] if len(steps_ms) > 1 else step
            figures = (flood_mb_s, step, p99, STEP_LIMIT_MS, health, HEALTH_LIMIT_MS)
            table.add_row(execution, kind, *(f"{figure:.1f}" for figure in figures))
            is_fair &= step <= STEP_LIMIT_MS and health <= HEALTH_LIMIT_MS
    Console(width=120).print(table)
    sys.exit(not is_fair)


if __name__ == "__main__":
    main()
