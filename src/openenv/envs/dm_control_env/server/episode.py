"""An episode of the suite: its observations, its frames, and its exact copy."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from openenv.core.wire.boxes import to_array
from openenv.envs.bounded_arrays import describe_box
from openenv.envs.dm_control_env.models import DMControlObservation
from openenv.envs.dm_control_env.server.choice import TaskChoice
from openenv.envs.mujoco_data import load_data, save_data
from openenv.envs.rendering import frame_png

_UNBOUNDED = 1e9
"""A control with bounds beyond this has none: LQR's are 1e10."""
_COUNTERS = ("_step_count", "_reset_next_step")
"""Attributes of a dm_control environment that change from step to step."""
_NO_METADATA: Mapping[str, Any] = {}


@dataclass
class Episode:
    """An episode, with its environment."""

    choice: TaskChoice
    env: Any
    metadata: dict[str, Any]
    """Of every observation."""
    episode_id: str
    step_count: int = 0

    def element(self, values: list[float]) -> np.ndarray[Any, Any]:
        """The controls as an array. Raises ValueError, naming the bounds, for values that are none."""
        spec = self.env.action_spec()
        try:
            element: np.ndarray[Any, Any] = to_array(values, spec.dtype)
        except (ValueError, OverflowError):
            element = np.empty(0)
        if element.shape != spec.shape or not ((spec.minimum <= element) & (element <= spec.maximum)).all():
            space = self.metadata["action_space"]
            raise ValueError(
                f"values={str(values)[:200]}: expected {spec.shape[0]} finite numbers from {space['low']} to "
                f"{space['high']} (null: no bound)."
            )
        return element

    def step(self, values: list[float]) -> DMControlObservation:
        """The observation after these controls."""
        time_step = self.env.step(self.element(values))
        self.step_count += 1
        return self.observation(time_step)

    def observation(self, time_step: Any, metadata: Mapping[str, Any] = _NO_METADATA) -> DMControlObservation:
        """The message of a step. metadata: of this observation alone."""
        is_over, discount = time_step.last(), 1.0 if time_step.discount is None else float(time_step.discount)
        is_cut = self.choice.max_steps is not None and self.step_count >= self.choice.max_steps
        fields = {
            "done": is_over or is_cut,
            "reward": None if time_step.reward is None else float(time_step.reward),
            "metadata": {**self.metadata, **metadata},
            "observations": {name: np.ravel(part).tolist() for name, part in time_step.observation.items()},
            "discount": discount,
            "truncated": (is_over or is_cut) and discount > 0,
            "pixels": frame_png(self.draw) if self.choice.render else None,
        }
        return DMControlObservation.construct_unchecked(fields)

    def draw(self) -> Any:
        """The rendered frame, as pixels."""
        choice = self.choice
        return self.env.physics.render(height=choice.height, width=choice.width, camera_id=choice.camera_id)

    def save(self) -> bytes:
        """An exact copy, with the random numbers and the counter of steps."""
        env = self.env
        counters = {name: getattr(env, name) for name in _COUNTERS}
        return pickle.dumps((replace(self, env=None), save_data(env.physics.data.ptr), vars(env.task), counters))

    @classmethod
    def load(cls, snapshot: bytes) -> "Episode":
        """The episode of a snapshot that `save` has made in this server."""
        episode: Episode
        episode, data, task, counters = pickle.loads(snapshot)
        env = episode.choice.make(0)
        env.reset()
        vars(env.task).update(task)
        vars(env).update(counters)
        load_data(data, env.physics.model.ptr, env.physics.data.ptr)
        episode.env = env
        return episode

    def close(self) -> None:
        """Release the environment and what it draws with."""
        self.env.close()


def describe_actions(env: Any) -> dict[str, Any]:
    """The action space; a bound that is as good as infinite is null."""
    spec = env.action_spec()
    low, high = (
        np.where(np.abs(bound) > _UNBOUNDED, np.copysign(np.inf, bound), bound)
        for bound in (spec.minimum, spec.maximum)
    )
    return describe_box(spec.shape, spec.dtype, low, high)


def describe_observations(observation: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of an observation, in their shapes."""
    boxes = {name: describe_box(np.shape(part), float, -np.inf, np.inf) for name, part in observation.items()}
    return {"type": "Dict", "spaces": boxes}
