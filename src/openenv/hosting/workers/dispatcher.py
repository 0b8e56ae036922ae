"""Accepts the connections of a server with several workers and hands each to one of them.

The head of the first request decides which worker that is. The worker gets the connection with every byte unread, and
no later byte passes through this process.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence

from openenv.hosting.workers.request_head import RequestHead, peek_head
from openenv.hosting.workers.worker_pool import WorkerPool

log = logging.getLogger(__name__)

_PAUSE_S = 0.5
"""Before the next attempt to accept, when the process has no file descriptor left."""


class ConnectionDispatcher:
    """Accepts connections while a worker is ready to take them."""

    def __init__(self, pool: WorkerPool, head_timeout_s: float) -> None:
        """head_timeout_s: from the connection to the end of its first request's head."""
        self._pool = pool
        self._head_timeout_s = head_timeout_s

    async def serve(self, listeners: Sequence[socket.socket]) -> None:
        """Accept until cancelled."""
        async with asyncio.TaskGroup() as group:
            for listener in listeners:
                group.create_task(self._accept(listener, group))

    async def _accept(self, listener: socket.socket, group: asyncio.TaskGroup) -> None:
        while True:
            await self._pool.is_open.wait()
            try:
                connection, address = await asyncio.get_running_loop().sock_accept(listener)
            except OSError as error:
                log.warning("no connection can be accepted: %s; retrying in %g s", error, _PAUSE_S)
                await asyncio.sleep(_PAUSE_S)
                continue
            group.create_task(self._dispatch(connection, str(address[0])))

    async def _dispatch(self, connection: socket.socket, caller: str) -> None:
        """Hand one connection over; a client that sends its request slowly delays no other."""
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(self._head_timeout_s):
                head = await peek_head(connection)
        except OSError:  # TimeoutError among them
            connection.close()
            return
        except asyncio.CancelledError:
            connection.close()
            raise
        request = RequestHead.parse(head)
        worker = self._pool.worker_for(request, caller) if head else None
        if worker is None:
            connection.close()
        else:
            worker.hand_over(connection, opens_session=request.opens_session)
