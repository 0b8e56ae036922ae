"""The echo environment."""

from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata
from openenv.envs.echo_env.models import EchoAction, EchoObservation, EchoState

REWARD_PER_CHARACTER = 0.1


class EchoEnvironment(Environment[EchoAction, EchoObservation, EchoState]):
    """Returns the message it receives. The reward is 0.1 for each character of the message."""

    execution = "inline"

    def __init__(self) -> None:
        self._episode_id: str | None = None
        self._step_count = 0
        self._last_message = ""

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> EchoObservation:
        """Start an episode. Nothing is random: every seed gives the same one."""
        if kwargs:
            raise ValueError(f"reset takes seed and episode_id, got {', '.join(sorted(kwargs))}")
        self._episode_id, self._step_count, self._last_message = episode_id or str(uuid4()), 0, ""
        return EchoObservation(echoed_message="Echo environment ready!", reward=0.0)

    def step(self, action: EchoAction, timeout_s: float | None = None, **kwargs: Any) -> EchoObservation:
        """Return the message."""
        message = action.message
        self._step_count += 1
        self._last_message = message
        return EchoObservation(
            echoed_message=message, message_length=len(message), reward=REWARD_PER_CHARACTER * len(message)
        )

    @property
    def state(self) -> EchoState:
        """The episode's id, its number of steps, and the last message."""
        return EchoState(episode_id=self._episode_id, step_count=self._step_count, last_message=self._last_message)

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the content of `/metadata`."""
        return EnvironmentMetadata(name="echo_env", description=type(self).__doc__ or "", version="1.0.0")
