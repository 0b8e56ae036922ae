"""The part of a server that one of its processes holds: its sessions' ids, and its share of the limits.

A server of one process holds everything. Of several workers each gets its share when it starts. A session id begins
with the number of its worker, so that every process knows where a request for that session belongs. Before that stands
the name of a server that is one of several replicas, for the gateway.
"""

import dataclasses
import hashlib
import re
import uuid
import zlib
from dataclasses import dataclass
from typing import Self

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.exceptions import SessionNotFoundError

_WATCH_DIGITS = 16
_WORKER_PREFIX = re.compile(r"(?:[a-z0-9-]+\.)?w(\d{1,4})-")


class WrongWorker(SessionNotFoundError):
    """The session belongs to another worker of this server. A plain HTTP request is forwarded there."""

    def __init__(self, worker: int, session_id: str, message: str | None = None) -> None:
        """worker: the number of that worker. message: what a client reads when that worker does not answer."""
        super().__init__(session_id, message)
        self.worker = worker


@dataclass(frozen=True, kw_only=True)
class WorkerShare:
    """The share of one process."""

    number: int = 0
    """The worker's number, from 0."""
    num_workers: int = 1
    max_sessions: int
    max_queue: int
    max_snapshots: int
    max_snapshot_bytes: int
    replica: str | None = None
    """The server's name among its replicas."""

    @classmethod
    def whole(cls, max_sessions: int, config: ServerConfig) -> Self:
        """The share of a server of one process. max_sessions: what the environment allows of `config`'s."""
        return cls(
            max_sessions=max_sessions,
            max_queue=config.max_queue,
            max_snapshots=config.max_snapshots,
            max_snapshot_bytes=config.max_snapshot_bytes,
            replica=config.replica,
        )

    def of_worker(self, number: int, num_workers: int) -> "WorkerShare":
        """The share of one worker; those of all workers add up to this one, but for one snapshot at least in each."""

        def part(total: int) -> int:
            return total // num_workers + (number < total % num_workers)

        return dataclasses.replace(
            self,
            number=number,
            num_workers=num_workers,
            max_sessions=part(self.max_sessions),
            max_queue=part(self.max_queue),
            max_snapshots=max(1, part(self.max_snapshots)),
            max_snapshot_bytes=max(1, part(self.max_snapshot_bytes)),
        )

    def new_session_id(self) -> str:
        """A random id, which names its replica and its worker where there are several."""
        replica = "" if self.replica is None else f"{self.replica}."
        worker = "" if self.num_workers == 1 else f"w{self.number}-"
        return f"{replica}{worker}{uuid.uuid4()}"

    def watch_id(self, session_id: str) -> str:
        """A name of a session for its watchers, which opens no session. It begins with its worker, as the id."""
        digest = hashlib.sha256(session_id.encode()).hexdigest()[:_WATCH_DIGITS]
        return digest if self.num_workers == 1 else f"w{self.number}-{digest}"

    def check_session(self, session_id: str) -> None:
        """Raises WrongWorker for the id of a session that another worker opened."""
        worker = worker_of(session_id, self.num_workers)
        if worker is not None and worker != self.number:
            raise WrongWorker(worker, session_id)

    def check_caller(self, caller: str) -> None:
        """Raises WrongWorker for a caller whose default session another worker keeps."""
        worker = default_worker_of(caller, self.num_workers)
        if worker != self.number:
            lost = f"the default session of {caller} ended with its worker, which is restarting: try again shortly"
            raise WrongWorker(worker, caller, lost)


def worker_of(session_id: str, num_workers: int) -> int | None:
    """The number of the worker that opened a session, or None where the id names none of this server."""
    found = _WORKER_PREFIX.match(session_id)
    worker = int(found[1]) if found else num_workers
    return worker if worker < num_workers else None


def default_worker_of(caller: str, num_workers: int) -> int:
    """The number of the worker that keeps a caller's default session: always the same for one address."""
    return zlib.crc32(caller.encode()) % num_workers
