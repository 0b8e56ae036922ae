"""A client for any environment: actions, observations and states are plain dictionaries."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from openenv.core.client_types import AwaitsItself, StepResult
from openenv.core.env_client import EnvClient


class PlainState(AwaitsItself, dict[str, Any]):
    """A state as a dictionary."""


class GenericAction(dict[str, Any]):
    """An action written with keywords: `GenericAction(message="hello")`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(kwargs)

    def __repr__(self) -> str:
        return f"GenericAction({', '.join(f'{name}={value!r}' for name, value in self.items())})"


class GenericEnvClient(EnvClient[dict[str, Any], dict[str, Any], PlainState]):
    """A session with an environment whose message classes the caller does not have."""

    def _step_payload(self, action: Mapping[str, Any] | BaseModel) -> dict[str, Any]:
        """The fields of the action. Raises TypeError for an object that has none."""
        if isinstance(action, BaseModel):
            return action.model_dump(mode="json")
        if not isinstance(action, Mapping):
            raise TypeError(f"GenericEnvClient.step takes a mapping of fields, not {type(action).__name__}")
        return dict(action)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[dict[str, Any]]:
        """The observation as the dictionary that came."""
        return StepResult(
            payload.get("observation", {}), payload.get("reward"), payload.get("done", False), payload.get("metadata")
        )

    def _parse_state(self, payload: dict[str, Any]) -> PlainState:
        """The state as the dictionary that came."""
        return PlainState(payload)
