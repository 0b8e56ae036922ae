"""A worker's end of what all workers of a server share: it asks the front door's process, which keeps it."""

import hmac

from starlette.requests import Request

from openenv.core.env_server.commons import SessionElsewhere
from openenv.core.env_server.places import Queued
from openenv.core.env_server.processes.channel import Channel
from openenv.core.env_server.processes.session_names import home_of, new_session_id, worker_of

CALLER_HEADER = "x-openenv-caller"
"""On a request that one worker hands on to another: the server's secret, and whose request it is."""


class SharedCommons:
    """The `Commons` of the sessions of one worker."""

    def __init__(self, channel: Channel, number: int, num_workers: int, secret: str) -> None:
        """number: the worker's own, from 0. secret: known to the workers of this server alone."""
        self._channel = channel
        self._number = number
        self.num_workers = num_workers
        self._secret = secret
        self._num_waiting = 0

    @property
    def num_waiting(self) -> int:
        return self._num_waiting

    def new_session_id(self) -> str:
        return new_session_id(self._number)

    def refuse_elsewhere(self, session_id: str) -> None:
        worker = worker_of(session_id, self.num_workers)
        if worker is not None and worker != self._number:
            raise SessionElsewhere(worker, session_id)

    def caller(self, request: Request) -> str:
        secret, _, vouched_for = request.headers.get(CALLER_HEADER, "").partition(" ")
        if hmac.compare_digest(secret.encode(), self._secret.encode()):
            return vouched_for
        caller = request.client.host if request.client else "local"
        home = home_of(caller, self.num_workers)
        if home != self._number:
            lost = f"the default session of {caller} has ended with its worker, which starts again: try again shortly"
            raise SessionElsewhere(home, caller, lost)
        return caller

    def takes_place_now(self) -> bool:
        return False  # the front door keeps the places

    async def take_place(self, queued: Queued | None) -> None:
        is_waiting = False

        def wait(position: int) -> None:
            nonlocal is_waiting
            is_waiting = True
            self._num_waiting += 1
            if queued is not None:
                queued(position)

        try:
            await self._channel.ask("take", meanwhile=wait, undo=self.free_place)
        finally:
            self._num_waiting -= is_waiting

    def free_place(self) -> None:
        self._channel.note("free")

    async def keep_snapshot(self, snapshot: bytes) -> str:
        return str((await self._channel.ask("keep", snapshot)).value)

    async def find_snapshot(self, token: str) -> bytes:
        return (await self._channel.ask("find", token.encode(errors="replace"))).payload

    async def num_sessions(self) -> int:
        return int((await self._channel.ask("count")).value)

    async def metrics(self) -> bytes:
        return (await self._channel.ask("metrics")).payload
