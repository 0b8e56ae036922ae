"""An episode of a Gymnasium environment: what its observations contain, and its actions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from openenv.envs.bounded_arrays import to_json, to_message
from openenv.envs.gymnasium_env.models import GymnasiumObservation
from openenv.envs.gymnasium_env.server.choice import EnvChoice
from openenv.envs.rendering import frame_png

_NO_METADATA: Mapping[str, Any] = {}
ACTION_NAMES: Mapping[str, tuple[str, ...]] = {
    "Acrobot": ("minus", "none", "plus"),
    "Blackjack": ("stick", "hit"),
    "CartPole": ("left", "right"),
    "CliffWalking": ("up", "right", "down", "left"),
    "CliffWalkingSlippery": ("up", "right", "down", "left"),
    "FrozenLake": ("left", "down", "right", "up"),
    "FrozenLake8x8": ("left", "down", "right", "up"),
    "LunarLander": ("none", "left", "main", "right"),
    "MountainCar": ("left", "none", "right"),
    "Taxi": ("south", "north", "east", "west", "pickup", "dropoff"),
}
"""Names of the actions of Discrete spaces, by the id without its version."""


@dataclass
class Episode:
    """An episode, with its environment."""

    choice: EnvChoice
    env: gymnasium.Env[Any, Any]
    metadata: dict[str, Any]
    """Of every observation."""
    discrete: range | None
    """The actions of a Discrete action space; None for other spaces."""
    episode_id: str
    seed: int
    step_count: int = 0
    actions: list[Any] = field(default_factory=list)
    """All actions so far, where an environment can be copied by repeating them alone."""

    def step(self, element: Any) -> GymnasiumObservation:
        """The observation after an element of the action space."""
        value, reward, terminated, truncated, info = self.env.step(element)
        self.step_count += 1
        if self.choice.family == "box2d":
            self.actions.append(element)
        return self.observation(
            value, info, reward=float(reward), terminated=bool(terminated), truncated=bool(truncated)
        )

    def observation(
        self,
        value: Any,
        info: Mapping[str, Any],
        *,
        reward: float | None = None,
        terminated: bool = False,
        truncated: bool = False,
        metadata: Mapping[str, Any] = _NO_METADATA,
    ) -> GymnasiumObservation:
        """The message of what Gymnasium returns. metadata: of this observation alone."""
        done = terminated or truncated
        mask = info.get("action_mask")
        legal = [] if done or self.discrete is None else list(self.discrete)
        if mask is not None:
            legal = [action for action, is_open in zip(legal, mask, strict=False) if is_open]
        names = ACTION_NAMES.get(self.choice.env_id.rpartition("-v")[0], ())
        metadata = {**self.metadata, **metadata}
        if names and legal:
            metadata["legal_action_names"] = [names[action] for action in legal]
        if info:
            metadata["info"] = to_json(info)
        fields = {
            "done": done,
            "reward": reward,
            "metadata": metadata,
            "value": to_message(value),
            "truncated": truncated,
            "legal_actions": legal,
            "pixels": frame_png(self.draw) if self.choice.render else None,
        }
        return GymnasiumObservation.construct_unchecked(fields)

    def draw(self) -> Any:
        """The rendered frame, as pixels."""
        viewer = getattr(getattr(self.env.unwrapped, "mujoco_renderer", None), "viewer", None)
        if viewer is not None:  # another environment of this thread may have drawn since
            viewer.make_context_current()
        return self.env.render()

    def close(self) -> None:
        """Close the environment. The others' `close` ends pygame, which all sessions of a process share."""
        if self.choice.family in ("mujoco", "other"):
            self.env.close()
