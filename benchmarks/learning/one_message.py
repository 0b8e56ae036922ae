"""The echo environment with an end, which training needs: an episode is one message."""

from typing import Any

from openenv.envs.echo_env.models import EchoAction, EchoObservation
from openenv.envs.echo_env.server.environment import EchoEnvironment


class OneMessageEnvironment(EchoEnvironment):
    """Returns the message it receives, and ends. The reward is 0.1 for each character of the message."""

    def step(self, action: EchoAction, timeout_s: float | None = None, **kwargs: Any) -> EchoObservation:
        """Return the message."""
        observation = super().step(action, timeout_s, **kwargs)
        observation.done = True
        return observation
