"""The client of the stairs, with the three methods that version 0.10.0 asks for."""

from typing import Any, Dict  # noqa: UP035

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient

from .models import StairsAction, StairsObservation, StairsState


class StairsEnv(EnvClient[StairsAction, StairsObservation, StairsState]):
    """A session on the stairs."""

    def _step_payload(self, action: StairsAction) -> Dict[str, Any]:  # noqa: UP006
        return {"steps": action.steps}

    def _parse_result(self, payload: Dict[str, Any]) -> StepResult[StairsObservation]:  # noqa: UP006
        fields = payload.get("observation", {})
        observation = StairsObservation(
            height=fields.get("height", 0), visited=fields.get("visited", []), notes=fields.get("notes", {}),
            done=payload.get("done", False), reward=payload.get("reward"), metadata=fields.get("metadata", {}),
        )  # fmt: skip
        return StepResult(observation=observation, reward=payload.get("reward"), done=payload.get("done", False))

    def _parse_state(self, payload: Dict[str, Any]) -> StairsState:  # noqa: UP006
        return StairsState(episode_id=payload.get("episode_id"), step_count=payload.get("step_count", 0))
