"""The machine's own limit: a bare server that answers WebSocket frames, and a bare client.

There is no handshake, no environment and no validation. One JSON text of a step's size travels each way; both ends
parse and write it. One session is a blocking socket; several are connections of one event loop. `open` connects, makes
three exchanges (in place of handshake, reset and close), and disconnects.
`python -m benchmarks.players.floor SECONDS [SESSIONS | open]` prints one JSON line.
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

from openenv.core.net.frames import TEXT, FrameReader, client_frame, server_frame

REQUEST = orjson.dumps({"type": "step", "id": "1234abcd-1", "data": {"message": "hello"}})
OBSERVATION = {"observation": {"echoed_message": "hello"}, "reward": 0.5, "done": False}


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


def serve(port_pipe: Connection) -> None:
    """Serve on a free port until killed. The port is sent through the pipe."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
        port_pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


class Client(asyncio.Protocol):
    """Sends the next request in the call that reads a response."""

    def __init__(self, latencies: list[float]) -> None:
        self._latencies = latencies

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = transport
        self._reader = FrameReader(1 << 20, from_client=False)
        self._send()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        for message in self._reader.feed(data):
            orjson.loads(message.data)
            self._latencies.append(time.perf_counter() - self._began)
            self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(client_frame(TEXT, REQUEST))  # type: ignore[attr-defined]


def step_together(port: int, seconds: float, sessions: int) -> list[float]:
    """Return the seconds of each step of several connections."""
    latencies: list[float] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(sessions):
            await loop.create_connection(lambda: Client(latencies), "127.0.0.1", port)
        await asyncio.sleep(seconds)

    uvloop.run(run())
    return latencies


def open_and_close(port: int, seconds: float) -> list[float]:
    """Return the seconds of each connection: opened, three exchanges, closed."""

    async def run() -> list[float]:
        latencies, ended = [], time.perf_counter() + seconds
        while (began := time.perf_counter()) < ended:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(3):
                writer.write(client_frame(TEXT, REQUEST))
                await reader.read(1 << 16)
            writer.close()
            await writer.wait_closed()
            latencies.append(time.perf_counter() - began)
        return latencies

    return asyncio.run(run())


def step(port: int, seconds: float) -> list[float]:
    """Return the seconds of each step of one connection."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reader, latencies = FrameReader(1 << 20, from_client=False), []
    ended = time.perf_counter() + seconds
    while (began := time.perf_counter()) < ended:
        connection.sendall(client_frame(TEXT, REQUEST))
        answers: list[object] = []
        while not answers:
            data = connection.recv(1 << 16)
            if not data:
                raise ConnectionError("the bare server closed the connection")
            answers = [orjson.loads(message.data) for message in reader.feed(data)]
        latencies.append(time.perf_counter() - began)
    return latencies


def main() -> None:
    """Measure one turn and print its figures."""
    seconds, what = float(sys.argv[1]), (*sys.argv, "1")[2]
    receiver, sender = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(sender,), daemon=True)
    server.start()
    port, cpu = receiver.recv(), -time.process_time()
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
