"""The choice of a MiniGrid environment, checked and made."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import minigrid  # noqa: F401  registers its ids

from openenv.envs.rendering import check_render
from openenv.hosting.serving.settings import option

RESET_FIELDS = ("env_id", "max_steps", "render")
_FAMILIES = ("MiniGrid-", "BabyAI-")
_WITHOUT_FILES = "MiniGrid-WFC-"
"""Begins the ids whose patterns are not in minigrid's package."""
ENV_IDS: Sequence[str] = [
    env_id for env_id in gymnasium.registry if env_id.startswith(_FAMILIES) and not env_id.startswith(_WITHOUT_FILES)
]
"""All that can be made, old versions included."""
_LEVELS = "BabyAI-"


@dataclass(frozen=True, kw_only=True)
class GridChoice:
    """What is played. Raises ValueError, naming the field, for a wrong value."""

    env_id: str = option("MiniGrid-Empty-8x8-v0", "Play this id")
    max_steps: int | None = None
    """Limit of steps; None: the environment's own alone."""
    render: bool = option(False, "Send the rendered frame in each observation, as a PNG file")

    def __post_init__(self) -> None:
        if self.env_id not in ENV_IDS:
            near = _near(str(self.env_id), ENV_IDS)
            raise ValueError(f"env_id={self.env_id!r:.100} is not among the {len(ENV_IDS)} ids of MiniGrid.{near}")
        check_render(self.render)
        if self.max_steps is not None and (type(self.max_steps) is not int or self.max_steps < 1):
            raise ValueError(f"max_steps={self.max_steps!r}: expected a whole number from 1, or null for no limit.")

    @property
    def resets_quickly(self) -> bool:
        """Whether a reset takes few milliseconds. Levels of BabyAI are drawn until they can be solved."""
        return not self.render and not self.env_id.startswith(_LEVELS)

    def make(self) -> gymnasium.Env[Any, Any]:
        """A new environment."""
        return gymnasium.make(self.env_id, render_mode="rgb_array" if self.render else None, disable_env_checker=True)


def resolve_choice(reset_kwargs: Mapping[str, Any], default: GridChoice) -> GridChoice:
    """What a reset with these keywords plays. Raises ValueError for an unknown keyword or a wrong value."""
    for name in reset_kwargs:
        if name not in RESET_FIELDS:
            known = (*RESET_FIELDS, "seed", "episode_id")
            raise ValueError(f"reset argument {name!r} is not known.{_near(name, known)} Known: {', '.join(known)}.")
    given = {name: value for name, value in reset_kwargs.items() if value is not None}
    return GridChoice(**{**vars(default), **given}) if given else default


def tasks() -> dict[str, dict[str, Any]]:
    """Reset keywords by the id of each environment, in its newest version."""
    newest = {env_id.rpartition("-v")[0]: env_id for env_id in sorted(ENV_IDS)}
    return {env_id: {"env_id": env_id} for env_id in ENV_IDS if env_id in newest.values()}


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
