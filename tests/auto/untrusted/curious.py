"""An environment that tries to reach the machine it runs on."""

import os
import socket
from pathlib import Path
from typing import Any

from openenv.core.env_server import Action, Environment, Observation, State


class CuriousAction(Action):
    """What to try."""

    attempt: str
    target: str = ""


class CuriousObservation(Observation):
    """What came of it."""

    found: str = ""


class CuriousEnvironment(Environment[CuriousAction, CuriousObservation, State]):
    """Reads, writes, connects, listens and lists variables as its action asks, and reports errors as what it found."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[bytearray] = []

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> CuriousObservation:
        return CuriousObservation()

    def step(self, action: CuriousAction, timeout_s: float | None = None, **kwargs: Any) -> CuriousObservation:
        try:
            return CuriousObservation(found=getattr(self, f"_{action.attempt}")(action.target))
        except OSError as error:
            return CuriousObservation(found=f"refused: {type(error).__name__}")

    @property
    def state(self) -> State:
        return State()

    def _read(self, path: str) -> str:
        return Path(path).read_text()

    def _write(self, path: str) -> str:
        return str(Path(path).write_text("written"))

    def _connect(self, port: str) -> str:
        with socket.create_connection(("127.0.0.1", int(port)), 5):
            return "connected"

    def _variable(self, name: str) -> str:
        return os.environ.get(name, "not set")

    def _fill(self, _: str) -> str:
        while True:
            self._kept.append(bytearray(os.urandom(1 << 20)) * 16)
