"""What is said when a client's session begins and ends, and the ids that its requests carry.

In the extended dialect every request has an id. After a broken connection the client attaches to its session again and
repeats the open requests under their old ids: what was done is answered from the record, and nothing is done twice.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import orjson

from openenv.core.connection import Address
from openenv.core.errors import AnswerTimeout, OpenEnvError, SessionGone, error_from_wire
from openenv.core.unforeseen import unforeseen_bytes

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0
"""Between two attempts to come back to a session."""
GOODBYE = b'{"type":"close"}'
GOODBYE_S = 2.0
"""How long a client that ends its session waits until the server has closed the environment."""


def request_ids() -> Iterator[str]:
    """Ids that no other client of the same session uses."""
    client = unforeseen_bytes()[:4].hex()
    return (f"{client}-{number}" for number in itertools.count(1))


class Welcome:
    """What the server said of the session when it was opened."""

    def __init__(self, frame: bytes) -> None:
        """Raises what an error frame stands for."""
        message = orjson.loads(frame)
        if message.get("type") == "error":
            raise error_from_wire(message["data"])
        self.session_id: str = message["data"]["session_id"]
        self.grace_s: float = message["data"]["grace_s"]
        self.about: dict[str, Any] = message["data"]


def queue_wait_s(frame: bytes) -> float | None:
    """How long the server may keep its caller waiting for a session, when that is what a first frame says."""
    message = orjson.loads(frame)
    return float(message["data"]["wait_s"]) if message.get("type") == "queued" else None


def gone(error: OpenEnvError) -> SessionGone:
    return SessionGone(f"the session is gone ({error}): reset() starts a new episode in a new one")


def not_welcomed(address: Address, session_id: str | None) -> AnswerTimeout:
    name = "message_timeout_s" if session_id is None else "connect_timeout_s"
    return AnswerTimeout(f"the server gave no session in {address.welcome_s(session_id):g} s: raise {name}")
