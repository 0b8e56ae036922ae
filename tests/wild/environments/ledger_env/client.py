"""The client of the ledger, which asks which fields have come."""

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Action, State

from .models import LedgerObservation


class LedgerEnv(EnvClient[Action, LedgerObservation, State]):
    """A session of the ledger."""

    def _step_payload(self, action: Action) -> dict[str, Any]:
        return action.model_dump(exclude={"metadata"})

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[LedgerObservation]:
        fields = payload.get("observation", {})
        observation = LedgerObservation(**fields, reward=payload.get("reward"), done=payload.get("done", False))
        observation.metadata["sent"] = sorted(fields)
        return StepResult(observation=observation, reward=payload.get("reward"), done=payload.get("done", False))

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)
