"""The choice of a task of the suite and of its frames, checked and made."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dm_control import suite

from openenv.envs.rendering import check_render
from openenv.hosting.serving.settings import option

RESET_FIELDS = ("domain_name", "task_name", "max_steps", "render", "width", "height", "camera_id")
_RANGES = {"width": (16, 640), "height": (16, 480), "camera_id": (-1, 15)}
"""Frames as large as the suite's models have room for."""
_ENDLESS = "lqr"
"""The domain whose episodes have no limit of time."""
_ENDLESS_STEPS = 1000
"""Steps of its episodes in `tasks`, as the other domains have."""
_SEED_BITS = 32


@dataclass(frozen=True, kw_only=True)
class TaskChoice:
    """What is played. Raises ValueError, naming the field, for a wrong value."""

    domain_name: str = option("cartpole", "Play this domain", name="domain")
    task_name: str = option("balance", "Play this task of it", name="task")
    max_steps: int | None = None
    """Limit of steps; None: the task's own limit of time alone."""
    render: bool = option(False, "Send the rendered frame in each observation, as a PNG file")
    width: int = 320
    height: int = 240
    camera_id: int = 0
    """The camera's number in the model; -1: the free camera."""

    def __post_init__(self) -> None:
        _check_name("domain_name", self.domain_name, list(suite.TASKS_BY_DOMAIN))
        _check_name("task_name", self.task_name, suite.TASKS_BY_DOMAIN[self.domain_name])
        check_render(self.render)
        if self.max_steps is not None and (type(self.max_steps) is not int or self.max_steps < 1):
            raise ValueError(f"max_steps={self.max_steps!r}: expected a whole number from 1, or null for no limit.")
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ValueError(f"{name}={value!r}: expected a whole number from {least} to {most}.")

    @property
    def is_reusable(self) -> bool:
        """Whether a new seed needs no new model. Those of LQR are random."""
        return self.domain_name != _ENDLESS

    def is_of_the_task(self, other: "TaskChoice") -> bool:
        """Whether both play the same task."""
        return (self.domain_name, self.task_name) == (other.domain_name, other.task_name)

    def make(self, seed: int) -> Any:
        """A new environment of dm_control."""
        return suite.load(self.domain_name, self.task_name, task_kwargs={"random": random_state(seed)})


def random_state(seed: int) -> np.random.RandomState:
    """The random numbers of a seed: dm_control's own below 2**32."""
    words = [seed >> shift & (1 << _SEED_BITS) - 1 for shift in range(0, max(seed.bit_length(), 1), _SEED_BITS)]
    return np.random.RandomState(words[0] if len(words) == 1 else words)


def resolve_choice(reset_kwargs: Mapping[str, Any], default: TaskChoice) -> TaskChoice:
    """What a reset with these keywords plays. Another domain than the default's needs a task_name.

    Raises ValueError for an unknown keyword or a wrong value.
    """
    for name in reset_kwargs:
        if name not in RESET_FIELDS:
            known = (*RESET_FIELDS, "seed", "episode_id")
            raise ValueError(f"reset argument {name!r} is not known.{_near(name, known)} Known: {', '.join(known)}.")
    given = {name: value for name, value in reset_kwargs.items() if value is not None}
    return TaskChoice(**{**vars(default), **given}) if given else default


def tasks() -> dict[str, dict[str, Any]]:
    """Reset keywords by the name of each task, such as `cheetah-run`."""
    return {
        f"{domain}-{task}": {
            "domain_name": domain,
            "task_name": task,
            **({"max_steps": _ENDLESS_STEPS} if domain == _ENDLESS else {}),
        }
        for domain, task in suite.ALL_TASKS
    }


def _check_name(field: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{field}={value!r:.100} is not among {', '.join(known)}.{_near(str(value), known)}")


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
