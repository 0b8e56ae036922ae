"""What the machine allows: a bare server that answers WebSocket frames, and a bare client.

No handshake, no environment, nothing checked: one JSON text of a step's size each way, parsed and written at both ends.
One session is a blocking socket; several are connections of one event loop. `open` connects an event loop's socket for
every two exchanges, the reset and the goodbye of a session, after a first one in place of the handshake.
`python -m benchmarks.floor SECONDS [SESSIONS | open]` prints one JSON line.
"""

import asyncio
import json
import multiprocessing
import socket
import sys
import time
from multiprocessing.connection import Connection

import orjson
import uvloop

from openenv.core.frames import TEXT, FrameReader, client_frame, server_frame

REQUEST = orjson.dumps({"type": "step", "id": "1234abcd-1", "data": {"message": "hello"}})
OBSERVATION = {"observation": {"echoed_message": "hello"}, "reward": 0.5, "done": False}
MASK = b"1234"


class Server(asyncio.Protocol):
    """Answers each frame in the call that reads it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = transport
        self._reader = FrameReader(1 << 20, from_client=True)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        for message in self._reader.feed(data):
            request = orjson.loads(message.data)
            answer = orjson.dumps({"type": "observation", "id": request["id"], "data": OBSERVATION})
            self._transport.write(server_frame(TEXT, answer))  # type: ignore[attr-defined]


def serve(told: Connection) -> None:
    """Serve on a free port, which is told, until killed."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


class Client(asyncio.Protocol):
    """Asks again in the call that reads an answer."""

    def __init__(self, latencies: list[float]) -> None:
        self._latencies = latencies

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = transport
        self._reader = FrameReader(1 << 20, from_client=False)
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        for message in self._reader.feed(data):
            orjson.loads(message.data)
            self._latencies.append(time.perf_counter() - self._began)
            self._ask()

    def _ask(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(client_frame(TEXT, REQUEST, MASK))  # type: ignore[attr-defined]


def step_together(port: int, seconds: float, sessions: int) -> list[float]:
    """Seconds of each step of several connections."""
    latencies: list[float] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(sessions):
            await loop.create_connection(lambda: Client(latencies), "127.0.0.1", port)
        await asyncio.sleep(seconds)

    uvloop.run(run())
    return latencies


def open_and_close(port: int, seconds: float) -> list[float]:
    """Seconds of each connection: opened, three exchanges, closed."""

    async def run() -> list[float]:
        latencies, ended = [], time.perf_counter() + seconds
        while (began := time.perf_counter()) < ended:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(3):
                writer.write(client_frame(TEXT, REQUEST, MASK))
                await reader.read(1 << 16)
            writer.close()
            await writer.wait_closed()
            latencies.append(time.perf_counter() - began)
        return latencies

    return asyncio.run(run())


def step(port: int, seconds: float) -> list[float]:
    """Seconds of each step of one connection."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reader, latencies = FrameReader(1 << 20, from_client=False), []
    ended = time.perf_counter() + seconds
    while (began := time.perf_counter()) < ended:
        connection.sendall(client_frame(TEXT, REQUEST, MASK))
        answers: list[object] = []
        while not answers:
            data = connection.recv(1 << 16)
            if not data:
                raise ConnectionError("the bare server is gone")
            answers = [orjson.loads(message.data) for message in reader.feed(data)]
        latencies.append(time.perf_counter() - began)
    return latencies


def main() -> None:
    """Step for a while."""
    seconds, what = float(sys.argv[1]), (*sys.argv, "1")[2]
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    port, cpu = ours.recv(), -time.process_time()
    if what == "open":
        latencies = open_and_close(port, seconds)
    else:
        latencies = step(port, seconds) if what == "1" else step_together(port, seconds, int(what))
    cpu += time.process_time()
    server.kill()
    latencies.sort()
    figures = {
        "rate": len(latencies) / seconds,
        "p50_us": 1e6 * latencies[len(latencies) // 2],
        "p99_us": 1e6 * latencies[int(len(latencies) * 0.99)],
        "client_cpu_us": 1e6 * cpu / len(latencies),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
