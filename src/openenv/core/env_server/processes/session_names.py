"""Which worker has a session: its id says so; a caller's own default session is where the caller's address leads."""

import re
import zlib

from openenv.core.unforeseen import new_uuid

_ID = re.compile(r"w(\d{1,4})-")


def new_session_id(worker: int) -> str:
    """An id that nobody can guess and that begins with its worker's number."""
    return f"w{worker}-{new_uuid()}"


def worker_of(session_id: str, num_workers: int) -> int | None:
    """The number of the worker that gave the id, or None when none of these did."""
    found = _ID.match(session_id)
    worker = int(found[1]) if found else num_workers
    return worker if worker < num_workers else None


def home_of(caller: str, num_workers: int) -> int:
    """The worker that keeps the default session of a caller, always the same."""
    return zlib.crc32(caller.encode()) % num_workers
