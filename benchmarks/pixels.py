"""A server of 210x160x3 screens, ours: `python -m benchmarks.pixels --port 8000`."""

import argparse

import numpy as np

from openenv.core import Action, EnvClient, Environment, Observation, State
from openenv.core.arrays import Array
from openenv.core.env_server import create_app, serve

SHAPE = (210, 160, 3)


class PixelAction(Action):
    """Which button is pressed."""

    action_id: int


class PixelObservation(Observation):
    """A screen."""

    screen: Array


class PixelEnvironment(Environment[PixelAction, PixelObservation, State]):
    """Shows one of a few screens of noise: what is measured is their way to the client."""

    execution = "inline"

    def __init__(self) -> None:
        self._screens = np.random.default_rng(0).integers(0, 256, (8, *SHAPE), dtype=np.uint8)
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> PixelObservation:
        """The first screen."""
        self._state = State(episode_id=episode_id)
        return PixelObservation(screen=self._screens[0])

    def step(self, action: PixelAction, timeout_s: float | None = None) -> PixelObservation:
        """The next screen."""
        self._state.step_count += 1
        return PixelObservation(screen=self._screens[self._state.step_count % 8], reward=0.0)

    @property
    def state(self) -> State:
        """How many screens were shown."""
        return self._state


class PixelEnv(EnvClient[PixelAction, PixelObservation, State]):
    """Typed client."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    serve(create_app(PixelEnvironment), args.host, args.port)
