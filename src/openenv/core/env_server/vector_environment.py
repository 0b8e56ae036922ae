"""The interface of many environments that are stepped together, for libraries with a batched step of their own."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openenv.core.errors import EnvironmentFault, RequestRefused

Column = np.ndarray[Any, np.dtype[Any]] | list[Any]
"""One field of many observations: an array with a row for each, or a list of values that are not stacked."""


class ShapeMismatch(EnvironmentFault):
    """A field of an observation has another shape than in the batch; the episode of that environment is over."""


@dataclass(slots=True)
class VectorBatch:
    """Observations and rewards of n environments. The reward of a reset, and of an environment that failed, is NaN.

    Its arrays are sent without a copy: return new ones at each step.
    """

    observation: dict[str, Column]
    reward: np.ndarray[Any, np.dtype[np.float64]]
    terminated: np.ndarray[Any, np.dtype[np.bool_]]
    truncated: np.ndarray[Any, np.dtype[np.bool_]]
    errors: dict[int, RequestRefused] = field(default_factory=dict)
    """Errors by row. The row holds the last observation of its environment; the other rows are stepped."""

    @property
    def done(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Rows whose episode has ended."""
        return self.terminated | self.truncated

    def rows(self, rows: Sequence[int]) -> dict[str, Column]:
        """Copies of the observations of these rows."""
        return {
            name: [copied(column[row]) for row in rows] if isinstance(column, list) else column[list(rows)]
            for name, column in self.observation.items()
        }

    def put(self, rows: Sequence[int], other: "VectorBatch") -> bool:
        """Replace the observations of these rows by those of another batch.

        Returns False if the shapes of a field differ: then nothing is replaced, and the rows have a ShapeMismatch.
        """
        none_stays = len(rows) == len(self.reward)
        pairs: dict[str, tuple[Column, Column]] = {}
        for name in {**self.observation, **other.observation}:
            new = other.observation.get(name, [None] * len(rows))
            column = self.observation.get(name)
            if column is None or none_stays:
                column = _empty_like(new, len(self.reward))
            if _row_shape(column) != _row_shape(new):
                self.errors.update(dict.fromkeys(rows, shape_mismatch(name, _row_shape(new), _row_shape(column))))
                return False
            pairs[name] = column, new
        for name, (column, new) in pairs.items():
            self.observation[name] = _replaced(column, new, rows)
        return True


_IMMUTABLE = frozenset({bool, int, float, str, bytes, type(None)})


def copied(value: Any) -> Any:
    """A copy that shares no list, dictionary, array or model with `value`."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is list:
        return [one if type(one) in _IMMUTABLE else copied(one) for one in value]
    if kind is dict:
        return {key: one if type(one) in _IMMUTABLE else copied(one) for key, one in value.items()}
    return value.copy() if kind is np.ndarray and value.dtype != object else copy.deepcopy(value)


def _empty_like(column: Column, num_rows: int) -> Column:
    if isinstance(column, list):
        return [None] * num_rows
    return np.zeros((num_rows, *column.shape[1:]), dtype=column.dtype)


def _row_shape(column: Column) -> tuple[int, ...] | None:
    return None if isinstance(column, list) else column.shape[1:]


def shape_mismatch(name: str, shape: tuple[int, ...] | None, expected: tuple[int, ...] | None) -> ShapeMismatch:
    """The error of a field whose shape differs from that of the batch; None stands for a list that is not stacked."""
    given = "a list" if shape is None else f"shape {shape}"
    fixed = "which is a list" if expected is None else f"whose shape is {expected}"
    return ShapeMismatch(f"{name}: {given} is not in the observation space, {fixed}: pad what is shorter")


def _replaced(column: Column, new: Column, rows: Sequence[int]) -> Column:
    if isinstance(column, list) or isinstance(new, list):
        for row, value in zip(rows, new, strict=True):
            column[row] = value
        return column
    wide = column.astype(np.result_type(column, new), copy=not column.flags.writeable)
    wide[list(rows)] = new
    return wide


def merged(num_rows: int, parts: Sequence[tuple[Sequence[int], VectorBatch]]) -> VectorBatch:
    """One batch of several, each with some of the rows. Rows without a part are zeros, with a reward of NaN.

    A part whose shapes differ from those of the parts before it has an error in each of its rows.
    """
    ended = np.zeros(num_rows, dtype=np.bool_)
    whole = VectorBatch({}, np.full(num_rows, np.nan), ended, ended.copy())
    for rows, part in parts:
        if whole.put(rows, part):
            index = list(rows)
            whole.reward[index], whole.terminated[index] = part.reward, part.terminated
            whole.truncated[index] = part.truncated
        whole.errors.update({rows[row]: error for row, error in part.errors.items()})
    return whole


@dataclass(slots=True)
class AutoresetBatch:
    """The result of a step with same-step autoreset."""

    batch: VectorBatch
    """Rewards and ends of the step. Rows whose episode ended have the first observation of the next episode."""
    ended_rows: list[int]
    """Rows whose episode ended."""
    final_observation: dict[str, Column]
    """The last observations of those episodes."""
    done_rows: list[int]
    """Rows whose next episode is over at its first observation, without a legal action."""


class VectorEnvironment(ABC):
    """`num_envs` environments, numbered from 0. Equal seeds and actions give what one environment alone would give."""

    ragged_fields: frozenset[str] = frozenset()
    """Fields whose rows are lists of integers of different lengths; their columns are lists."""
    text_fields: frozenset[str] = frozenset()
    """Fields whose rows are text; their columns are lists. Other columns that are lists go to Gymnasium's `infos`."""

    @abstractmethod
    def reset(self, env_ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> VectorBatch:
        """Reset these environments. requests: the keywords of each reset, with a `seed`."""

    @abstractmethod
    def autoreset(self, env_ids: Sequence[int]) -> VectorBatch:
        """Reset these environments with the keywords of their last reset and new random numbers.

        The seed of the last reset and the actions since determine them. An environment that was never reset starts as
        an empty reset with the seed `next_seed(0)` would. Only environments that were reset are stepped.
        """

    @abstractmethod
    def step(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> VectorBatch:
        """Step these environments. actions: for each field of the action, a column of its values."""

    def step_with_autoreset(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> AutoresetBatch | None:
        """`step`, and `autoreset` of the environments whose episode ended, in one pass.

        None, with nothing done: the caller calls one after the other.
        """
        return None

    @abstractmethod
    def action_fields(self) -> dict[str, Any]:
        """The values of each field of an action, known after a reset: `{"n": 3}` for 0 to 2, else its JSON schema."""

    def observation_fields(self) -> dict[str, Any]:
        """What is known, after a reset, of the values in the columns of observations; other columns have any values.

        `{"n": 3}` for 0 to 2, `{"minimum": 0, "maximum": 9}` for numbers, or the `low`, `high`, `shape` and `dtype` of
        an array.
        """
        return {}

    def close(self) -> None:  # noqa: B027  most have none
        """Release the resources of the environments."""
