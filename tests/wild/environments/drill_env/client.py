"""The client of the drill."""

from __future__ import annotations

from drill_env.models import DrillAction, DrillObservation, DrillState
from openenv.core.env_client import EnvClient, StepResult


class DrillEnv(EnvClient[DrillAction, DrillObservation, DrillState]):
    """A session of the drill, whose constructor renames a parameter."""

    def __init__(self, base_url: str, timeout: float = 60.0):
        super().__init__(base_url=base_url, message_timeout_s=timeout)

    def _step_payload(self, action: DrillAction) -> dict:
        return {"code": action.code}

    def _parse_result(self, payload: dict) -> StepResult[DrillObservation]:
        observation = DrillObservation(**payload["observation"])
        return StepResult(observation=observation, reward=payload.get("reward"), done=bool(payload.get("done", False)))

    def _parse_state(self, payload: dict) -> DrillState:
        return DrillState(**payload)
