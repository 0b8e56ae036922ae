"""Records sessions as JSON lines, so that an episode can be played again and compared, observation by observation.

The first line names the environment; each further line is one request and what came of it.
"""

import hashlib
import secrets
import time
from pathlib import Path
from typing import Any, Protocol

import orjson

from openenv.core.arrays import inlined
from openenv.core.env_server.verbs import Answer
from openenv.core.env_server.wire import error_json
from openenv.core.errors import RequestRefused
from openenv.core.json_text import read_json, write_json

FORMAT = 1


class Recorder(Protocol):
    """What a session tells of each request."""

    def seeded(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data of a reset as it shall be played."""
        ...

    def answered(self, verb: str, data: dict[str, Any], answer: Answer, took_s: float) -> None:
        """A request was answered."""
        ...

    def refused(self, verb: str, data: dict[str, Any], error: RequestRefused, took_s: float) -> None:
        """A request was refused, or what came of it is invalid."""
        ...

    def noted(self, verb: str, data: dict[str, Any]) -> None:
        """Something happened to the whole session."""
        ...


class SessionRecorder:
    """Writes one session to `<folder>/<session id>.jsonl`."""

    def __init__(self, folder: Path, session_id: str, environment: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{session_id}.jsonl"
        head = {"format": FORMAT, "environment": environment, "session_id": session_id, "time": time.time()}
        self._append(head)

    def seeded(self, data: dict[str, Any]) -> dict[str, Any]:
        """A reset without a seed gets one, so that it can be repeated."""
        return data if data.get("seed") is not None else {**data, "seed": secrets.randbits(31)}

    def answered(self, verb: str, data: dict[str, Any], answer: Answer, took_s: float) -> None:
        """Write the request, the hash of the observation, its reward and its validity."""
        said = read_json(inlined(answer.data, answer.arrays) if answer.arrays else answer.data)
        outcome = {
            "observation_sha256": observation_hash(said.get("observation", said)),
            "reward": said.get("reward"),
            "done": answer.done,
            "validity": "truncated" if answer.truncated else "valid",
        }
        self._append({"verb": verb, "data": data, **outcome, "took_s": round(took_s, 6)})

    def refused(self, verb: str, data: dict[str, Any], error: RequestRefused, took_s: float) -> None:
        """Write the request and why nothing valid came of it."""
        outcome = {"validity": error.validity, "code": error.code, "message": error.message}
        self._append({"verb": verb, "data": data, **outcome, "took_s": round(took_s, 6)})

    def noted(self, verb: str, data: dict[str, Any]) -> None:
        """Write what happened and with which token or sessions."""
        self._append({"verb": verb, "data": data})

    def _append(self, line: dict[str, Any]) -> None:
        with self._path.open("ab") as file:
            file.write(error_json(line) + b"\n")


def observation_hash(observation: Any) -> str:
    """SHA-256 of an observation as JSON with sorted keys, in hexadecimal."""
    return hashlib.sha256(write_json(observation, option=orjson.OPT_SORT_KEYS)).hexdigest()
