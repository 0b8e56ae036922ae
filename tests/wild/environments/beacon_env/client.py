"""The client of the beacon."""

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient

from .models import BeaconAction, BeaconObservation, BeaconState, Colour


class BeaconEnv(EnvClient[BeaconAction, BeaconObservation, BeaconState]):
    """A session with the beacon."""

    def flash(self, colour: Colour):
        """A step by another name; a coroutine in asynchronous mode."""
        return super().step(BeaconAction(colour=colour))

    def _step_payload(self, action: BeaconAction) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, data: dict[str, Any]) -> StepResult[BeaconObservation]:
        return StepResult(
            observation=BeaconObservation(**data["observation"]), reward=data["reward"], done=data["done"]
        )

    def _parse_state(self, payload: dict[str, Any]) -> BeaconState:
        return BeaconState.model_validate(payload)
