"""The choice of a Gymnasium environment: its id, options and limit of steps, checked and made."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium

RESET_FIELDS = ("env_id", "env_options", "max_steps")
_LIGHT = ("gymnasium.envs.toy_text.", "gymnasium.envs.classic_control.")
_BOX2D = "gymnasium.envs.box2d."
_ADAPTERS = "GymV"
"""Begins the ids of adapters, which import any module by its name."""
_LONGEST_OPTIONS = 20_000


@dataclass(frozen=True, kw_only=True)
class EnvChoice:
    """What is played. Raises ValueError, naming the field, for a wrong value."""

    env_id: str = "CartPole-v1"
    env_options: dict[str, Any] = field(default_factory=dict)
    """Keywords of gymnasium.make."""
    max_steps: int | None = None
    """Limit of steps; None: the registered one."""

    def __post_init__(self) -> None:
        _check_id(self.env_id)
        _check_options(self.env_options)
        steps = self.max_steps
        if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
            raise ValueError(f"max_steps={steps!r}: expected a whole number from 1, or null for the registered limit.")

    @property
    def is_light(self) -> bool:
        """Whether it is plain Python, which steps in microseconds and can be pickled: toy text, classic control."""
        return _entry_point(self.env_id).startswith(_LIGHT)

    @property
    def is_reusable(self) -> bool:
        """Whether a reset of a used environment equals one of a new one. Box2D's world remembers earlier episodes."""
        return not _entry_point(self.env_id).startswith(_BOX2D)

    def make(self) -> gymnasium.Env[Any, Any]:
        """A new environment. Raises ValueError, with Gymnasium's reason, if there can be none."""
        try:
            return gymnasium.make(
                self.env_id, max_episode_steps=self.max_steps, disable_env_checker=True, **self.env_options
            )
        except Exception as error:  # border: a constructor raises anything for an option that it does not take
            given = f" with env_options={json.dumps(self.env_options)[:200]}" if self.env_options else ""
            reason = str(error) or type(error).__name__
            raise ValueError(f"env_id={self.env_id!r}{given} cannot be made: {reason}") from error


def resolve_choice(reset_kwargs: Mapping[str, Any], default: EnvChoice) -> EnvChoice:
    """What a reset with these keywords plays. Another id than the default's starts from that id's defaults.

    Raises ValueError for an unknown keyword, a wrong value, and an option that names a file of the server.
    """
    for name in reset_kwargs:
        if name not in RESET_FIELDS:
            known = (*RESET_FIELDS, "seed", "episode_id")
            raise ValueError(f"reset argument {name!r} is not known.{_near(name, known)} Known: {', '.join(known)}.")
    given = {name: value for name, value in reset_kwargs.items() if value is not None}
    if not given:
        return default
    if given.get("env_id", default.env_id) != default.env_id:
        default = EnvChoice()
    choice = EnvChoice(**{**vars(default), **given})
    if choice.env_options != default.env_options:
        for name in choice.env_options:
            if "file" in name or "path" in name:
                raise ValueError(f"env_options.{name}: a file can only be named where the server is started.")
    return choice


def _check_id(env_id: Any) -> None:
    known = [name for name in gymnasium.registry if not name.startswith(_ADAPTERS)]
    if env_id not in known:
        raise ValueError(f"env_id={env_id!r} is not among the {len(known)} registered ids.{_near(str(env_id), known)}")


def _check_options(options: Any) -> None:
    if not isinstance(options, dict):
        raise ValueError(f"env_options={options!r:.200}: expected an object of keywords of gymnasium.make.")
    if len(json.dumps(options)) > _LONGEST_OPTIONS:
        raise ValueError(f"env_options: longer than {_LONGEST_OPTIONS} characters of JSON. Use a smaller map.")
    for name, value in options.items():
        if name == "render_mode":
            raise ValueError("env_options.render_mode: frames are not sent. Leave it out.")
        if value is None:  # FrozenLake without a map draws one that no seed repeats
            raise ValueError(f"env_options.{name}=null: leave the option out, or give it a value.")


def _entry_point(env_id: str) -> str:
    return str(gymnasium.registry[env_id].entry_point)


def _near(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
