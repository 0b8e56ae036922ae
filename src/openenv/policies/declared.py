"""Policies that environments declare: a function that plays one environment, under a name."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from openenv.envs.catalog import CatalogEntry, entries, load_object
from openenv.installation import install_line
from openenv.policies.base import Policy


class FunctionPolicy(Policy):
    """Plays by a function: an observation and random numbers -> an action."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        seed: int | str | None = None,
        *,
        is_slow: bool = False,
        reset: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """A policy under a name.

        Args:
            seed: equal seeds give equal choices; None takes a seed from the system.
            is_slow: whether a choice takes more than a millisecond.
            reset: keywords that the function needs in each reset.
            options: further keywords of the function.

        Raises:
            TypeError: the function does not take the options.
        """
        inspect.signature(function).bind(None, None, **options)
        self.name = name
        self.is_slow = is_slow
        self.reset_kwargs = reset or {}
        self._function, self._rng, self._options = function, Random(seed), options

    def select_action(self, observation: Any) -> Any:
        """What the function chooses."""
        return self._function(observation, self._rng, **self._options)


def declared_names() -> Iterator[str]:
    """The names of the policies that bundled environments declare in `openenv.yaml`."""
    return (name for entry in entries() for name in entry.policies)


def declared_policy(name: str, seed: int | None = None, **options: Any) -> Policy | None:
    """The declared policy of that name; None if there is none.

    Raises ValueError if its library is not installed, TypeError for an option that it does not take.
    """
    return next((_loaded(entry, name, seed, options) for entry in entries() if name in entry.policies), None)


def _loaded(entry: CatalogEntry, name: str, seed: int | None, options: Mapping[str, Any]) -> Policy:
    declared = dict(entry.policies[name])
    try:
        function = load_object(declared.pop("play"))
    except ImportError as error:
        needed = install_line(str(entry.extra))
        raise ValueError(f"policy {name!r} needs {error.name} in this process too: {needed}") from None
    return FunctionPolicy(name, function, seed, **declared, **options)
