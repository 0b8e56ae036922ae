"""Four sketches of where a step runs, without any of this package's code: `python -m benchmarks.players.thread_ways`.

A server answers lines of JSON after some 10 us of Python, and 32 connections of one process play. Decision 0002 has
what follows from the figures.
"""

import argparse
import asyncio
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue

import orjson
import uvloop
from rich.console import Console
from rich.table import Table

from openenv.hosting.server_process import free_port

REQUEST = b'{"id":"abc-1","type":"step","data":{"message":"x"}}\n'
CONNECTIONS = 32
SECONDS = 1.0


def respond(line: bytes) -> bytes:
    """Return the response to a request: its parsing, a step's worth of Python, and its encoding."""
    request = orjson.loads(line)
    total = 0
    for number in range(450):
        total += number
    return orjson.dumps({"id": request["id"], "observation": "hello", "reward": 1.0}) + b"\n"


class Inline(asyncio.Protocol):
    """The event loop runs the step."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self.transport.write(respond(data))


class OwnThread(Inline):
    """A thread of the connection runs the step, woken by the event loop."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        super().connection_made(transport)
        self.loop = asyncio.get_running_loop()
        self.requests: SimpleQueue[tuple[OwnThread, bytes]] = self.queue()

    def queue(self) -> "SimpleQueue[tuple[OwnThread, bytes]]":
        """Return the queue of a new thread."""
        requests: SimpleQueue[tuple[OwnThread, bytes]] = SimpleQueue()
        threading.Thread(target=serve_queue, args=(requests,), daemon=True).start()
        return requests

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self.requests.put((self, data))

    def reply(self, response: bytes) -> None:
        """Send a response; called in the event loop."""
        if not self.transport.is_closing():
            self.transport.write(response)


class SharedThread(OwnThread):
    """One thread runs the steps of all connections."""

    shared: "SimpleQueue[tuple[OwnThread, bytes]] | None" = None

    def queue(self) -> "SimpleQueue[tuple[OwnThread, bytes]]":
        """Return the queue of the one thread."""
        if SharedThread.shared is None:
            SharedThread.shared = super().queue()
        return SharedThread.shared


def serve_queue(requests: "SimpleQueue[tuple[OwnThread, bytes]]") -> None:
    """Run the steps of a queue."""
    while True:
        connection, data = requests.get()
        connection.loop.call_soon_threadsafe(connection.reply, respond(data))


def serve_own_sockets(port: int) -> None:
    """Serve each connection in a thread that reads and writes its socket."""
    listener = socket.create_server(("127.0.0.1", port), backlog=128)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve_own_socket, args=(connection,), daemon=True).start()


def serve_own_socket(connection: socket.socket) -> None:
    """Answer one connection until it ends."""
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(respond(data))


WAYS = {
    "own thread": OwnThread,
    "own thread that reads its socket": None,
    "one shared thread": SharedThread,
    "inline": Inline,
}


async def serve(way: str, port: int) -> None:
    """Serve until the process is killed."""
    server = await asyncio.get_running_loop().create_server(WAYS[way] or Inline, "127.0.0.1", port)
    await server.serve_forever()


class Player(asyncio.Protocol):
    """Sends the next request when a response has come."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self.transport = transport
        self.num_steps = 0
        self.transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self.num_steps += 1
        self.transport.write(REQUEST)


async def play(port: int) -> float:
    """Return the steps a second of all connections."""
    loop = asyncio.get_running_loop()
    players = [(await loop.create_connection(Player, "127.0.0.1", port))[1] for _ in range(CONNECTIONS)]
    await asyncio.sleep(SECONDS)
    return sum(player.num_steps for player in players) / SECONDS


def measure(way: str) -> float:
    """Return the steps a second of one way, with a server in a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.players.thread_ways", "--serve", way, str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        return uvloop.run(play(port))
    finally:
        process.kill()
        process.wait()


def main(argv: Sequence[str] | None = None) -> None:
    """Serve, or measure each way and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", nargs=2, metavar=("WAY", "PORT"), help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="Turns of each way; medians are shown (default 3).")
    args = parser.parse_args(argv)
    if args.serve:
        way, port = args.serve[0], int(args.serve[1])
        serve_own_sockets(port) if WAYS[way] is None else uvloop.run(serve(way, port))
        return
    table = Table("way", f"steps a second of {CONNECTIONS} connections")
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(args.rounds):
        for way in WAYS:
            rates[way].append(measure(way))
    for way, measured in rates.items():
        table.add_row(way, f"{statistics.median(measured):,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
