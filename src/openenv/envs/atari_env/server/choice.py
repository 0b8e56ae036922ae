"""The choice of a game and how it is played, checked against what the Arcade Learning Environment (ALE) has."""

import difflib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import gymnasium
from ale_py import ALEInterface, LoggerMode, roms

from openenv.envs.atari_env.models import ObsType
from openenv.hosting.serving.settings import option

_V5 = ("ALE/", "-v5")
"""Begin and end of the ids of games for one player. ALE ends the process when it loads another file."""
_RANGES = {"frameskip": 60, "max_frames": 10_000_000, "max_steps": 10_000_000}
"""The most of each field that is a number from 1."""

ALEInterface.setLoggerMode(LoggerMode.Error)


class GameFacts(NamedTuple):
    """What ALE knows of a game."""

    modes: tuple[int, ...]
    difficulties: tuple[int, ...]
    height: int
    width: int


@functools.cache
def game_names() -> tuple[str, ...]:
    """The names of all games for one player."""
    begin, end = _V5
    specs = [spec for name, spec in gymnasium.registry.items() if name.startswith(begin) and name.endswith(end)]
    return tuple(sorted(str(spec.kwargs["game"]) for spec in specs))


@functools.cache
def game_facts(game_name: str) -> GameFacts:
    """The facts of one of `game_names`. The first call loads the game, which takes 0.1 s."""
    ale = ALEInterface()
    ale.loadROM(rom_path(game_name))
    height, width = ale.getScreenDims()
    return GameFacts(
        tuple(ale.getAvailableModes()),
        tuple(ale.getAvailableDifficulties()),
        height,
        width,
    )


def rom_path(game_name: str) -> Path:
    """The file of one of `game_names`."""
    path: Path | None = roms.get_rom_path(game_name)
    assert path is not None, game_name
    return path


@dataclass(frozen=True, kw_only=True)
class AtariChoice:
    """What is played. Raises ValueError, naming the field, for a wrong value. AtariState describes the fields."""

    game_name: str = option("pong", "Play this game, in snake_case", name="game")
    obs_type: ObsType = option("rgb", "Observe frames as rgb or grayscale, or the memory as ram")
    frameskip: int = option(4, "Repeat an action for so many frames")
    repeat_action_probability: float = option(
        0.25,
        "Let a frame repeat the action of the frame before with this probability",
        variable="ATARI_REPEAT_ACTION_PROB",
    )
    full_action_space: bool = option(False, "Allow all 18 actions (true), or the game's own")
    mode: int | None = option(None, "Play this mode of the game, a number", unset="the game's own")
    difficulty: int | None = option(None, "Play at this difficulty of the game, a number", unset="the game's own")
    max_frames: int = option(108_000, "Truncate episodes after so many frames")
    max_steps: int | None = option(None, "Truncate episodes after so many steps", unset="no limit")

    def __post_init__(self) -> None:
        _check_one_of("game_name", self.game_name, game_names())
        _check_one_of("obs_type", self.obs_type, get_args(ObsType))
        for name, most in _RANGES.items():
            value = getattr(self, name)
            is_unset = name == "max_steps" and value is None
            if not is_unset and (type(value) is not int or not 1 <= value <= most):
                raise ValueError(f"{name}={value!r:.100}: expected a whole number from 1 to {most}.")
        probability = self.repeat_action_probability
        if type(probability) not in (int, float) or not 0 <= probability <= 1:
            raise ValueError(f"repeat_action_probability={probability!r:.100}: expected a number from 0 to 1.")
        if type(self.full_action_space) is not bool:
            raise ValueError(f"full_action_space={self.full_action_space!r:.100}: expected true or false.")
        for name in ("mode", "difficulty"):
            value = getattr(self, name)
            if value is None:
                continue
            facts = game_facts(self.game_name)
            known = facts.modes if name == "mode" else facts.difficulties
            if type(value) is not int or value not in known:
                raise ValueError(
                    f"{name}={value!r:.100} is not among those of {self.game_name}: {', '.join(map(str, known))}."
                )


RESET_FIELDS = tuple(AtariChoice.__dataclass_fields__)


def resolve_choice(reset_kwargs: Mapping[str, Any], default: AtariChoice) -> AtariChoice:
    """What a reset with these keywords plays. Another game than the default's has its own default mode and difficulty.

    Raises ValueError for an unknown keyword or a wrong value.
    """
    for name in reset_kwargs:
        if name not in RESET_FIELDS:
            known = (*RESET_FIELDS, "seed", "episode_id")
            raise ValueError(
                f"reset argument {name!r:.100} is not known.{_near(name, known)} Known: {', '.join(known)}."
            )
    given = {name: value for name, value in reset_kwargs.items() if value is not None}
    if not given:
        return default
    fields = dict(vars(default))
    if given.get("game_name", default.game_name) != default.game_name:
        fields |= {"mode": None, "difficulty": None}
    return AtariChoice(**{**fields, **given})


def check_action(action_id: Any, names: Sequence[str]) -> None:
    """Raises ValueError, listing the legal actions, for a number that is none of them. names: of the legal actions."""
    if type(action_id) is not int or not 0 <= action_id < len(names):
        listed = ", ".join(f"{number} ({name})" for number, name in enumerate(names))
        raise ValueError(f"action_id={action_id!r:.100} is not legal. Legal: {listed}.")


def tasks() -> dict[str, dict[str, Any]]:
    """Reset keywords by the name of each game."""
    return {name: {"game_name": name} for name in game_names()}


def _check_one_of(field: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{field}={value!r:.100} is not among {', '.join(known)}.{_near(str(value), known)}")


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
