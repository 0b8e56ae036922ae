"""The client of the relic, over plain HTTP."""

try:
    from core.client_types import StepResult
    from core.env_server.types import State
    from core.http_env_client import HTTPEnvClient
except ImportError:
    from openenv_core.client_types import StepResult
    from openenv_core.env_server.types import State
    from openenv_core.http_env_client import HTTPEnvClient

from .models import RelicAction, RelicObservation


class RelicEnv(HTTPEnvClient[RelicAction, RelicObservation]):
    """A session of the relic."""

    def _step_payload(self, action: RelicAction) -> dict:
        return {"number": action.number}

    def _parse_result(self, payload: dict) -> StepResult[RelicObservation]:
        observation = RelicObservation(**payload["observation"])
        return StepResult(observation=observation, reward=payload.get("reward"), done=payload.get("done", False))

    def _parse_state(self, payload: dict) -> State:
        return State(episode_id=payload.get("episode_id"), step_count=payload.get("step_count", 0))
