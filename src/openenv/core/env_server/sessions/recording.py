"""Records sessions as JSON lines, from which an episode is replayed and compared observation by observation.

The first line names the environment and the options of its server; each further line is one request with its outcome.
"""

import hashlib
import os
import secrets
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from openenv.core.env_server.runner.env_runner import EncodedResponse
from openenv.core.errors import RequestRefused
from openenv.core.wire.arrays import inlined, read_frame
from openenv.core.wire.json_codec import write_json
from openenv.core.wire.server_codec import error_json

FORMAT = 1
_OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR
"""Other users of the machine read neither actions nor the ids of sessions that are being played."""


class SessionRecorder:
    """Writes one session to `<folder>/<session id>.jsonl`."""

    def __init__(self, folder: Path, session_id: str, environment: str, options: Sequence[str] = ()) -> None:
        """environment: its name. options: those of its server, such as `--game chess`."""
        folder.mkdir(mode=_OWNER_ONLY | stat.S_IXUSR, parents=True, exist_ok=True)
        self._path = folder / f"{session_id}.jsonl"
        head = {"format": FORMAT, "environment": environment, "options": list(options), "session_id": session_id}
        self._append({**head, "time": time.time()})

    def with_seed(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data of a reset, with a random seed if they have none, so that the episode can be replayed."""
        return data if data.get("seed") is not None else {**data, "seed": secrets.randbits(31)}

    def record_response(self, verb: str, data: dict[str, Any], response: EncodedResponse, took_s: float) -> None:
        """Write a request with the hash of its observation, its reward and its validity."""
        body = read_frame(inlined(response.data, response.arrays) if response.arrays else response.data)
        outcome = {
            "observation_sha256": observation_hash(body.get("observation", body)),
            "reward": body.get("reward"),
            "done": response.done,
            "validity": "truncated" if response.truncated else "valid",
        }
        self._append({"verb": verb, "data": data, **outcome, "took_s": round(took_s, 6)})

    def record_error(self, verb: str, data: dict[str, Any], error: RequestRefused, took_s: float) -> None:
        """Write a request with the error that it ended with."""
        outcome = {"validity": error.validity, "code": error.code, "message": error.message}
        self._append({"verb": verb, "data": data, **outcome, "took_s": round(took_s, 6)})

    def record_event(self, verb: str, data: dict[str, Any]) -> None:
        """Write that the session was saved, restored, or forked."""
        self._append({"verb": verb, "data": data})

    def _append(self, line: dict[str, Any]) -> None:
        with open(self._path, "ab", opener=_open_for_owner) as file:
            file.write(error_json(line) + b"\n")


def _open_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, _OWNER_ONLY)


def observation_hash(observation: Any) -> str:
    """SHA-256 of an observation as JSON with sorted keys, in hexadecimal."""
    return hashlib.sha256(write_json(observation, option=orjson.OPT_SORT_KEYS)).hexdigest()
