"""Servers of the benchmarks, under our package: `python -m benchmarks.environments catch --port 8000`.

`echo` and `catch` are the environments of `tests/interop/published_peer.py`, as their author wrote them for the
published package: they declare no execution, so they run in a thread, and `uvicorn.run(app)` serves them. `pixels`
returns screens, and runs inline.
"""

import argparse
import time
from typing import Any

import numpy as np
import uvicorn
from tests.interop.published_peer import SERVED, EchoAction, EchoEnvironment, EchoObservation, EchoState

from openenv.core import Action, EnvClient, Environment, Observation, State
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.wire.arrays import Array

SHAPE = (210, 160, 3)
NUM_SCREENS = 8


class PixelAction(Action):
    """The button to press."""

    action_id: int


class PixelObservation(Observation):
    """A screen."""

    screen: Array


class PixelEnvironment(Environment[PixelAction, PixelObservation, State]):
    """Returns a few screens of noise in turn; they are drawn once, so a step costs next to nothing."""

    execution = "inline"

    def __init__(self) -> None:
        self._screens = np.random.default_rng(0).integers(0, 256, (NUM_SCREENS, *SHAPE), dtype=np.uint8)
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> PixelObservation:
        """Return the first screen."""
        self._state = State(episode_id=episode_id)
        return PixelObservation(screen=self._screens[0])

    def step(self, action: PixelAction, timeout_s: float | None = None) -> PixelObservation:
        """Return the next screen."""
        self._state.step_count += 1
        return PixelObservation(screen=self._screens[self._state.step_count % NUM_SCREENS], reward=0.0)

    @property
    def state(self) -> State:
        """The number of steps."""
        return self._state


class PixelEnv(EnvClient[PixelAction, PixelObservation, State]):
    """Client of one session of screens."""


class SleepyEnvironment(EchoEnvironment):
    """Sleeps for 2 s when it is asked to."""

    def step(self, action: EchoAction, timeout_s: float | None = None, **kwargs: Any) -> EchoObservation:
        """Echo, later if the message is `sleep`."""
        if action.message == "sleep":
            time.sleep(2)
        return super().step(action, timeout_s, **kwargs)


ENVIRONMENTS = {
    **SERVED,
    "sleep": (SleepyEnvironment, EchoAction, EchoObservation, EchoState),
    "pixels": (PixelEnvironment, PixelAction, PixelObservation, State),
}


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=ENVIRONMENTS)
    parser.add_argument("--host", default="127.0.0.1", help="Address to listen on (default %(default)s).")
    parser.add_argument("--port", type=int, default=8000, help="Port to listen on (default %(default)s).")
    args = parser.parse_args()
    environment, action, observation, state = ENVIRONMENTS[args.name]
    app = create_app(environment, action, observation, state_cls=state, config=ServerConfig(max_sessions=256))
    uvicorn.run(app, host=args.host, port=args.port, log_level="error")


if __name__ == "__main__":
    main()
