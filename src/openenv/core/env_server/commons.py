"""What all sessions of a server have in common: places, snapshots, how they are named and found, and figures.

A server of one process has it in its own memory; the workers of one that has several share it
(`processes/shared_commons.py`).
"""

from typing import Protocol

from starlette.requests import Request

from openenv.core.env_server.exceptions import SessionNotFoundError
from openenv.core.env_server.places import Places, Queued
from openenv.core.env_server.snapshots import Snapshots
from openenv.core.env_server.telemetry import Telemetry
from openenv.core.unforeseen import new_uuid


class SessionElsewhere(SessionNotFoundError):
    """Another worker of this server has the session, if any has. Over plain HTTP the request is handed on to it."""

    def __init__(self, worker: int, session_id: str, message: str | None = None) -> None:
        """worker: its number. message: what a caller is told when that worker has ended."""
        super().__init__(session_id, message)
        self.worker = worker


class Commons(Protocol):
    """What the sessions of one process need of their server as a whole."""

    num_workers: int
    """Processes that hold sessions."""

    @property
    def num_waiting(self) -> int:
        """Callers that wait in this process for a session."""
        ...

    def new_session_id(self) -> str:
        """An id that nobody can guess."""
        ...

    def refuse_elsewhere(self, session_id: str) -> None:
        """Raises SessionElsewhere for a session that this process does not have and another may."""
        ...

    def caller(self, request: Request) -> str:
        """Whose default session a request means. Raises SessionElsewhere when another process keeps it."""
        ...

    def takes_place_now(self) -> bool:
        """As `Places.takes_now`; False also where another process has to be asked."""
        ...

    async def take_place(self, queued: Queued | None) -> None:
        """As `Places.take`."""
        ...

    def free_place(self) -> None:
        """As `Places.free`."""
        ...

    async def keep_snapshot(self, snapshot: bytes) -> str:
        """As `Snapshots.keep`."""
        ...

    async def find_snapshot(self, token: str) -> bytes:
        """As `Snapshots.find`."""
        ...

    async def num_sessions(self) -> int:
        """Sessions of the whole server."""
        ...

    async def metrics(self) -> bytes:
        """Figures of the whole server, in Prometheus' text format."""
        ...


class OwnCommons:
    """That of a server of one process."""

    num_workers = 1

    def __init__(self, places: Places, snapshots: Snapshots, telemetry: Telemetry) -> None:
        self.places = places
        self._snapshots = snapshots
        self._telemetry = telemetry

    @property
    def num_waiting(self) -> int:
        return self.places.num_waiting

    def new_session_id(self) -> str:
        return new_uuid()

    def refuse_elsewhere(self, session_id: str) -> None:
        """There is no other process."""

    def caller(self, request: Request) -> str:
        return request.client.host if request.client else "local"

    def takes_place_now(self) -> bool:
        return self.places.takes_now()

    async def take_place(self, queued: Queued | None) -> None:
        await self.places.take(queued)

    def free_place(self) -> None:
        self.places.free()

    async def keep_snapshot(self, snapshot: bytes) -> str:
        return self._snapshots.keep(snapshot)

    async def find_snapshot(self, token: str) -> bytes:
        return self._snapshots.find(token)

    async def num_sessions(self) -> int:
        return self.places.num_taken

    async def metrics(self) -> bytes:
        return self._telemetry.text()
