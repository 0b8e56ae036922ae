"""The choice of a Gymnasium environment: its id, options and limit of steps, checked and made."""

import difflib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium

from openenv.envs.rendering import check_render
from openenv.formats.json_text import json_text
from openenv.hosting.serving.settings import option

Family = Literal["light", "box2d", "mujoco", "other"]
"""Light: toy text and classic control, plain Python that steps in microseconds and can be pickled."""

RESET_FIELDS = ("env_id", "env_options", "max_steps", "render")
_FAMILIES: Mapping[str, Family] = {
    "gymnasium.envs.toy_text.": "light",
    "gymnasium.envs.classic_control.": "light",
    "gymnasium.envs.box2d.": "box2d",
    "gymnasium.envs.mujoco.": "mujoco",
}
"""By the beginning of the entry point."""
_PACKAGES: Mapping[Family, str] = {"box2d": "Box2D", "mujoco": "mujoco"}
_ADAPTERS = "GymV"
"""Begins the ids of adapters, which import any module by its name."""
_LONGEST_OPTIONS = 20_000


@dataclass(frozen=True, kw_only=True)
class EnvChoice:
    """What is played. Raises ValueError, naming the field, for a wrong value."""

    env_id: str = option("CartPole-v1", "Play the environment of this id")
    env_options: dict[str, Any] = option(
        {}, "Keywords of gymnasium.make as a JSON object", metavar='{"is_slippery": false}'
    )
    max_steps: int | None = option(None, "Truncate episodes after this many steps", unset="the registered limit")
    render: bool = option(False, "Send the rendered frame in each observation, as a PNG file")

    def __post_init__(self) -> None:
        _check_id(self.env_id)
        _check_options(self.env_options)
        check_render(self.render)
        steps = self.max_steps
        if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
            raise ValueError(f"max_steps={steps!r}: expected a whole number from 1, or null for the registered limit.")

    @property
    def family(self) -> Family:
        """The part of Gymnasium that the environment belongs to."""
        return family_of(self.env_id)

    @property
    def is_quick(self) -> bool:
        """Whether a step takes microseconds. A frame and a physics engine take up to tens of milliseconds."""
        return self.family == "light" and not self.render

    @property
    def is_reusable(self) -> bool:
        """Whether a reset of a used environment equals one of a new one.

        Box2D's worlds remember earlier episodes, and the cameras of MuJoCo where they looked.
        """
        return self.family != "box2d" and not (self.family == "mujoco" and self.render)

    def make(self) -> gymnasium.Env[Any, Any]:
        """A new environment. Raises ValueError, with Gymnasium's reason, if there can be none."""
        mode = {"render_mode": "rgb_array"} if self.render else {}
        try:
            return gymnasium.make(
                self.env_id, max_episode_steps=self.max_steps, disable_env_checker=True, **mode, **self.env_options
            )
        except Exception as error:  # border: a constructor raises anything for an option that it does not take
            given = f" with env_options={json_text(self.env_options)[:200]}" if self.env_options else ""
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
        default = EnvChoice(render=default.render)
    choice = EnvChoice(**{**vars(default), **given})
    if choice.env_options != default.env_options:
        for name in choice.env_options:
            if "file" in name or "path" in name:
                raise ValueError(f"env_options.{name}: a file can only be named where the server is started.")
    return choice


def family_of(env_id: str) -> Family:
    """The part of Gymnasium that a registered id belongs to."""
    entry_point = str(gymnasium.registry[env_id].entry_point)
    return next((family for begins, family in _FAMILIES.items() if entry_point.startswith(begins)), "other")


def tasks() -> dict[str, dict[str, Any]]:
    """Reset keywords by the id of each of Gymnasium's environments, in its newest version, that is installed here."""
    newest: dict[str, gymnasium.envs.registration.EnvSpec] = {}
    for spec in gymnasium.registry.values():
        family = family_of(spec.id)
        package = _PACKAGES.get(family)
        is_installed = package is None or importlib.util.find_spec(package) is not None
        if family != "other" and is_installed:
            newest[spec.name] = max(newest.get(spec.name, spec), spec, key=lambda one: one.version or 0)
    return {spec.id: {"env_id": spec.id} for spec in newest.values()}


def _check_id(env_id: Any) -> None:
    known = [name for name in gymnasium.registry if not name.startswith(_ADAPTERS)]
    if env_id not in known:
        raise ValueError(f"env_id={env_id!r} is not among the {len(known)} registered ids.{_near(str(env_id), known)}")


def _check_options(options: Any) -> None:
    if not isinstance(options, dict):
        raise ValueError(f"env_options={options!r:.200}: expected an object of keywords of gymnasium.make.")
    if len(json_text(options)) > _LONGEST_OPTIONS:
        raise ValueError(f"env_options: longer than {_LONGEST_OPTIONS} characters of JSON. Use a smaller map.")
    for name, value in options.items():
        if name == "render_mode":
            raise ValueError("env_options.render_mode: reset with render=True for a frame in each observation.")
        if value is None:  # FrozenLake without a map draws one that no seed repeats
            raise ValueError(f"env_options.{name}=null: leave the option out, or give it a value.")


def _near(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
