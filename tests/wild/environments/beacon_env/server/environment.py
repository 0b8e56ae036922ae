"""The rules of the beacon, whose verbs are coroutines."""

import asyncio
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

from ..models import BeaconAction, BeaconObservation, BeaconState, Colour, Flash


class BeaconEnvironment(Environment[BeaconAction, BeaconObservation, BeaconState]):
    """Show green three times."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, flashes: int = 3) -> None:
        super().__init__()
        self._flashes: list[Flash] = []
        self._num_flashes = flashes
        self._state = BeaconState(flashes_left=flashes)
        self._lock = asyncio.Lock()

    def reset(self, seed=None, episode_id=None, **kwargs) -> BeaconObservation:
        raise RuntimeError("reset is asynchronous")

    def step(self, action, timeout_s=None, **kwargs) -> BeaconObservation:
        raise RuntimeError("step is asynchronous")

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, lamp: str = "old", **kwargs: Any
    ) -> BeaconObservation:
        async with self._lock:
            await asyncio.sleep(0)
            self._flashes = []
            self._state = BeaconState(episode_id=episode_id, flashes_left=self._num_flashes, lamp=lamp)
            return BeaconObservation(result=f"lit by the {lamp} lamp", reward=None, done=False)

    async def step_async(
        self, action: BeaconAction, timeout_s: float | None = None, **kwargs: Any
    ) -> BeaconObservation:
        async with self._lock:
            await asyncio.sleep(0)
            self._state.step_count += 1
            self._state.flashes_left -= 1
            self._flashes.append(Flash(colour=action.colour, at_step=self._state.step_count))
            done = self._state.flashes_left == 0
            greens = sum(flash.colour is Colour.GREEN for flash in self._flashes)
            return BeaconObservation(flashes=list(self._flashes), done=done, reward=greens / self._num_flashes)

    @property
    def state(self) -> BeaconState:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(
            name="Beacon", description="A light that is switched", version="2.1.0", author="Keeper",
            documentation_url="https://example.org/beacon",
        )  # fmt: skip
