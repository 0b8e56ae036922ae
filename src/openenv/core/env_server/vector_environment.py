"""Many environments that are stepped together: what a library with a batched step of its own implements."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openenv.core.errors import EnvironmentFault, RequestRefused

Column = np.ndarray[Any, np.dtype[Any]] | list[Any]
"""One field of many observations: an array with a row for each, or a list of what does not stack."""


class DoesNotStack(EnvironmentFault):
    """An observation is not of the shape of the others of its batch: its episode is given up."""


@dataclass(slots=True)
class Batch:
    """What follows for n environments. `reward` is NaN in the first observation of an episode and where it failed."""

    observation: dict[str, Column]
    reward: np.ndarray[Any, np.dtype[np.float64]]
    terminated: np.ndarray[Any, np.dtype[np.bool_]]
    truncated: np.ndarray[Any, np.dtype[np.bool_]]
    errors: dict[int, RequestRefused] = field(default_factory=dict)
    """By row: what was refused, or failed. Its observation is the last one; the others went on."""

    @property
    def over(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whose episode has ended."""
        return self.terminated | self.truncated

    def rows(self, rows: Sequence[int]) -> dict[str, Column]:
        """The observations of some rows."""
        return {
            name: [column[row] for row in rows] if isinstance(column, list) else column[list(rows)]
            for name, column in self.observation.items()
        }

    def put(self, rows: Sequence[int], other: "Batch") -> bool:
        """Let the observations of another batch take the place of those rows.

        Returns False where their shapes are not those of the rows that stay: those rows are as they were, and have an
        error.
        """
        none_stays = len(rows) == len(self.reward)
        pairs: dict[str, tuple[Column, Column]] = {}
        for name in {**self.observation, **other.observation}:
            new = other.observation.get(name, [None] * len(rows))
            column = self.observation.get(name)
            if column is None or none_stays:
                column = _empty_like(new, len(self.reward))
            if _row_shape(column) != _row_shape(new):
                self.errors.update(dict.fromkeys(rows, does_not_stack(name, _row_shape(new), _row_shape(column))))
                return False
            pairs[name] = column, new
        for name, (column, new) in pairs.items():
            self.observation[name] = _overlaid(column, new, rows)
        return True


def _empty_like(column: Column, num_rows: int) -> Column:
    if isinstance(column, list):
        return [None] * num_rows
    return np.zeros((num_rows, *column.shape[1:]), dtype=column.dtype)


def _row_shape(column: Column) -> tuple[int, ...] | None:
    return None if isinstance(column, list) else column.shape[1:]


def does_not_stack(name: str, shape: tuple[int, ...] | None, others: tuple[int, ...] | None) -> DoesNotStack:
    """The error of an observation whose field has another shape than those of the others; None: it is no array."""
    said, expected = ("no array" if one is None else f"shape {one}" for one in (shape, others))
    return DoesNotStack(f"{name}: {said} beside observations with {expected} cannot be stacked: pad what is shorter")


def _overlaid(column: Column, new: Column, rows: Sequence[int]) -> Column:
    if isinstance(column, list) or isinstance(new, list):  # both are
        for row, value in zip(rows, new, strict=True):
            column[row] = value
        return column
    wide = column.astype(np.result_type(column, new), copy=not column.flags.writeable)
    wide[list(rows)] = new
    return wide


def merged(num_rows: int, parts: Sequence[tuple[Sequence[int], Batch]]) -> Batch:
    """One batch of several, each of which has some of the rows. Rows of none are zeros, their rewards NaN.

    A part that does not stack with those before it has errors in all of its rows, its own where it has some.
    """
    ended = np.zeros(num_rows, dtype=np.bool_)
    whole = Batch({}, np.full(num_rows, np.nan), ended, ended.copy())
    for rows, part in parts:
        if whole.put(rows, part):
            index = list(rows)
            whole.reward[index], whole.terminated[index] = part.reward, part.terminated
            whole.truncated[index] = part.truncated
        whole.errors.update({rows[row]: error for row, error in part.errors.items()})
    return whole


@dataclass(slots=True)
class GoneOn:
    """What follows a step where ended episodes are followed by the next at once."""

    batch: Batch
    """As of the step, but with the first observations of the episodes that follow."""
    rows: list[int]
    """In which an episode has ended."""
    last: dict[str, Column]
    """Their last observations."""
    over_again: list[int]
    """Rows in which the episode that follows is over before anything can be done in it."""


class VectorEnvironment(ABC):
    """`num_envs` environments, numbered from 0. Equal seeds and actions give what one environment alone would give."""

    ragged: frozenset[str] = frozenset()
    """Fields of which each row is a list of numbers of another length; they are columns of lists."""
    texts: frozenset[str] = frozenset()
    """Fields of which each row is text; they are columns of lists. A column of lists that is neither is told beside the
    observation."""

    @abstractmethod
    def reset(self, env_ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> Batch:
        """Begin episodes in those environments; one set of reset keywords for each, `seed` among them."""

    @abstractmethod
    def begin_next(self, env_ids: Sequence[int]) -> Batch:
        """Begin the episodes that follow by themselves: as the last reset of those environments said, and as random,
        but so that the seed of that reset and the actions since fix all that happens. Those of environments that were
        never reset begin as an empty reset has it, with `next_seed(0)`. Only such as have begun are stepped."""

    @abstractmethod
    def step(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> Batch:
        """One action in each of those environments. actions: for each field of the action, a column of its values."""

    def step_and_begin_next(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> GoneOn | None:
        """`step` and, where an episode has ended, `begin_next`, for those who can do both in one pass.

        None, with nothing done: call one after the other.
        """
        return None

    @abstractmethod
    def action_fields(self) -> dict[str, Any]:
        """What may stand in each field of an action, after a reset: `{"n": 3}` for 0 to 2, else its JSON schema."""

    def close(self) -> None:  # noqa: B027  most have nothing to release
        """Release what the environments hold."""
