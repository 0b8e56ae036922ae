"""Takes the connections of a server that has several workers, and hands each to the worker that it is for.

A worker gets the connection itself: what is said on it later does not pass through here.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from typing import Protocol

from openenv.core.env_server.processes.request_head import RequestHead, peeked_head
from openenv.core.env_server.processes.session_names import home_of, worker_of
from openenv.core.local_socket import LOCAL

log = logging.getLogger(__name__)

_BACKLOG = 2048
_HEAD_TIMEOUT_S = 10.0
_PAUSE_S = 0.5
"""After the machine had no file left for another connection."""


class Worker(Protocol):
    """A worker as the front door knows it."""

    number: int

    @property
    def load(self) -> int:
        """Sessions that it has, or is about to have."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether it takes connections."""
        ...

    def hand_over(self, connection: socket.socket, *, opens_session: bool) -> None:
        """Let it have a connection."""
        ...


class FrontDoor:
    """Accepts connections while somebody is there to take them."""

    def __init__(self, workers: Sequence[Worker], is_open: asyncio.Event) -> None:
        """workers: by their numbers. is_open: set while at least one of them is ready."""
        self._workers = workers
        self._is_open = is_open
        self._last = 0

    async def serve(self, listeners: Sequence[socket.socket]) -> None:
        """Accept until cancelled."""
        async with asyncio.TaskGroup() as group:
            for listener in listeners:
                group.create_task(self._accept(listener, group))

    async def _accept(self, listener: socket.socket, group: asyncio.TaskGroup) -> None:
        while True:
            await self._is_open.wait()
            try:
                connection, address = await asyncio.get_running_loop().sock_accept(listener)
            except OSError as error:
                log.warning("no connection can be accepted for a moment: %s", error)
                await asyncio.sleep(_PAUSE_S)
                continue
            caller = LOCAL[0] if connection.family is socket.AF_UNIX else str(address[0])
            group.create_task(self._admit(connection, caller))

    async def _admit(self, connection: socket.socket, caller: str) -> None:
        """One client that says nothing, or little, keeps nobody else waiting."""
        try:
            if connection.family is not socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(_HEAD_TIMEOUT_S):
                head = await peeked_head(connection)
        except OSError:  # TimeoutError among them
            connection.close()
            return
        except asyncio.CancelledError:
            connection.close()
            raise
        asked = RequestHead.parse(head)
        worker = self._worker_for(asked, caller) if head else None
        if worker is None:
            connection.close()
        else:
            worker.hand_over(connection, opens_session=asked.opens_session)

    def _worker_for(self, asked: RequestHead, caller: str) -> Worker | None:
        """The worker that has the session; for a new one, and where it does not matter, the one with the fewest."""
        number: int | None = None
        if asked.session_id is not None:
            number = worker_of(asked.session_id, len(self._workers))
        elif asked.means_own_session:
            number = home_of(caller, len(self._workers))
        if number is not None and self._workers[number].is_ready:
            return self._workers[number]
        return self._least_loaded()

    def _least_loaded(self) -> Worker | None:
        """Of those that have as few, each in its turn."""
        num_workers = len(self._workers)
        in_turn = [self._workers[(self._last + offset) % num_workers] for offset in range(1, num_workers + 1)]
        worker = min((worker for worker in in_turn if worker.is_ready), key=lambda worker: worker.load, default=None)
        if worker is not None:
            self._last = worker.number
        return worker


def listeners(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on every address of `host`. Port 0 takes a free one. Raises OSError with the address."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            opened.append(_listener(family, address))
    except OSError as error:
        for listener in opened:
            listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    return opened


def _listener(family: int, address: object) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)  # type: ignore[arg-type]
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
