"""The environment that the transcripts were recorded with: it runs on the published package and must run on ours, unchanged.

python minecho.py PORT [simulation|production]     (two sessions at most, as in ws.txt)
"""

import sys
from typing import Any

import uvicorn
from pydantic import field_validator

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, ConcurrencyConfig, Observation, State


class EchoAction(Action):
    message: str

    @field_validator("message")
    @classmethod
    def check(cls, value: str) -> str:
        if value == "badval":
            raise ValueError("message must not be badval")
        return value


class EchoObservation(Observation):
    echoed: str
    length: int = 0
    payload: Any | None = None


class EchoState(State):
    last: str = ""


class EchoEnv(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    created = 0

    def __init__(self):
        super().__init__()
        EchoEnv.created += 1
        self._state = EchoState()

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._state = EchoState(episode_id=episode_id)
        return EchoObservation(echoed="ready", metadata={"seed": seed, "kw": kwargs})

    def step(self, action, timeout_s=None, **kwargs):
        self._state.step_count += 1
        self._state.last = text = action.message
        if text == "raise":
            raise RuntimeError("boom /etc/secret path")
        if text == "sleep":
            import time

            time.sleep(30)
        payload: Any = None
        reward = 1.0
        if text == "nan":
            reward = float("nan")
        elif text == "set":
            payload = {1, 2}
        elif text == "numpy":
            import numpy

            payload = numpy.zeros((2, 2), dtype=numpy.float32)
        elif text == "bytes":
            payload = b"\xff\x00"
        elif text == "timeout":
            payload = {"timeout_s": timeout_s, "kw": kwargs}
        meta = {"action_metadata": action.metadata} if action.metadata else {}
        return EchoObservation(
            echoed=text, length=len(text), payload=payload, reward=reward, done=text == "done", metadata=meta
        )

    @property
    def state(self):
        return self._state

    def list_splits(self):
        return ["train", {"name": "dev", "type": "validation"}]


if __name__ == "__main__":
    from openenv.core.env_server.http_server import create_fastapi_app

    mode = sys.argv[2] if len(sys.argv) > 2 else "simulation"
    app = create_fastapi_app(
        EchoEnv,
        EchoAction,
        EchoObservation,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=2),
        env_name="minecho",
        state_cls=EchoState,
        mode=mode,
    )
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
