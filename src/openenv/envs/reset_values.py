"""Checks the values that a client gives to a reset, and stores random numbers in snapshots."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any


def refuse_other_keywords(given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise ValueError, listing the known ones, if a reset has keywords left that the environment does not know."""
    if given:
        raise ValueError(f"reset takes {', '.join(('seed', 'episode_id', *known))}; got {', '.join(sorted(given))}.")


def require_whole(name: str, value: Any, low: int, high: int) -> int:
    """The value. Raises ValueError unless it is a whole number from low to high."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name}={value!r}: expected a whole number from {low} to {high}.")
    return value


def require_number(name: str, value: Any, low: float, high: float) -> float:
    """The value as a float. Raises ValueError unless it is a number from low to high."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name}={value!r}: expected a number from {low:g} to {high:g}.")
    return float(value)


def require_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """The value. Raises ValueError unless it is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(choices)}.")
    return str(value)


def random_state(rng: Random) -> list[Any]:
    """The state of random numbers, as JSON."""
    version, words, next_gauss = rng.getstate()
    return [version, list(words), next_gauss]


def restored_random(saved: Sequence[Any]) -> Random:
    """Random numbers that continue from a state of `random_state`."""
    version, words, next_gauss = saved
    rng = Random()
    rng.setstate((version, tuple(words), next_gauss))
    return rng
