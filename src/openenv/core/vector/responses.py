"""Responses of the sessions of a vector, put together as Gymnasium returns them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openenv.core.errors import EnvironmentFault, error_from_wire
from openenv.core.vector.spaces import concatenated

Step = tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], dict[str, Any]]
Part = tuple[Sequence[int], dict[str, Any]]
"""Environments, and the data of their session's response."""


@dataclass(slots=True)
class ObservationLayout:
    """What a response needs to be read: learned from the first reset."""

    only_field: str = ""
    """The field that is the whole observation, where there is but one."""
    text_fields: list[str] = field(default_factory=list)
    row_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The shape of one environment's array, by field. It is fixed."""

    def learn(self, columns: Mapping[str, Any], only_field: str) -> None:
        """Take the shapes of the first observations."""
        self.only_field = only_field
        self.row_shapes = {name: column.shape[1:] for name, column in columns.items() if isinstance(column, np.ndarray)}

    def observation(self, columns: dict[str, Any]) -> Any:
        """Columns as Gymnasium's observation."""
        return columns[self.only_field] if self.only_field else columns

    def put_together(self, parts: Sequence[Part], num_envs: int) -> Step:
        """One step of several responses.

        An environment whose arrays break the observation space fails with an error that names the field; the others go
        on. Raises EnvironmentFault for a reset that breaks it.
        """
        parts = [(env_ids, self._checked(data)) for env_ids, data in parts]
        env_ids = [env_id for numbers, _ in parts for env_id in numbers]
        infos: dict[str, Any] = {}
        if env_ids != list(range(num_envs)):
            infos["env_ids"] = np.array(env_ids)
        first = parts[0][1]
        self.text_fields = first.get("text_fields", self.text_fields)
        columns, others = concatenated([data["observation"] for _, data in parts], self.text_fields)
        infos.update(others)
        _add_errors(infos, parts)
        self._add_final(infos, parts)
        if "seeds" in first:
            infos["seeds"] = np.array([seed for _, data in parts for seed in data["seeds"]])
            infos["action_fields"] = first["action_fields"]
            infos["observation_fields"] = first.get("observation_fields", {})
        reward, terminated, truncated = (
            _joined([data[name] for _, data in parts]) for name in ("reward", "terminated", "truncated")
        )
        return self.observation(columns), reward, terminated, truncated, infos

    def _checked(self, data: dict[str, Any]) -> dict[str, Any]:
        """The response with its arrays in the shapes of the space, and an error for each row that has another."""
        observation, odd = self._fitted(data["observation"])
        final = data.get("final")
        final_observation, odd_final = self._fitted(final["observation"]) if final else ({}, None)
        if odd is None and odd_final is None:
            return data
        if odd is not None and "seeds" in data:
            raise EnvironmentFault(odd)
        reward = np.array(data["reward"])
        messages = dict.fromkeys(final["rows"], odd_final) if final and odd_final else {}
        if odd is not None:
            messages |= dict.fromkeys(range(len(reward)), odd)
        reward[list(messages)] = np.nan
        errors = {str(row): {"code": EnvironmentFault.code, "message": text} for row, text in messages.items()}
        checked = {**data, "observation": observation, "reward": reward}
        checked["errors"] = {**errors, **data.get("errors", {})}
        if final:
            checked["final"] = {**final, "observation": final_observation}
        return checked

    def _fitted(self, columns: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
        """Columns with zeros in place of arrays of another shape, and what is wrong with those."""
        wrong: str | None = None
        for name, shape in self.row_shapes.items():
            column = columns.get(name)
            if isinstance(column, np.ndarray) and column.shape[1:] != shape:
                wrong = wrong or (
                    f"{name}: shape {column.shape[1:]} is not in the observation space, whose shape is {shape}: pad "
                    "what is shorter, or open another vector"
                )
                columns = {**columns, name: np.zeros((len(column), *shape), dtype=column.dtype)}
        return columns, wrong

    def _add_final(self, infos: dict[str, Any], parts: Sequence[Part]) -> None:
        """The last observations of episodes that were followed by a new one in the same step."""
        if not any("final" in data for _, data in parts):
            return
        ended = _joined([_ended(len(numbers), data) for numbers, data in parts])
        last = [data["final"]["observation"] for _, data in parts if "final" in data]
        columns, others = concatenated(last, self.text_fields)
        infos["final_obs"] = FinalObservations(self.observation(columns), ended)
        infos["_final_obs"] = ended
        if others:
            values = {name: iter(column) for name, column in others.items()}
            infos["final_info"] = {
                name: [next(column) if is_last else None for is_last in ended] for name, column in values.items()
            }
            infos["_final_info"] = ended


class FinalObservations(Sequence[Any]):
    """The last observation of each environment whose episode has just ended, None for the others.

    `stacked` has them all, one array for each field, in the order of the environments that ended.
    """

    def __init__(self, stacked: Any, ended: np.ndarray[Any, Any]) -> None:
        self.stacked = stacked
        self._ended = ended

    def __len__(self) -> int:
        return len(self._ended)

    def __getitem__(self, row: Any) -> Any:
        row = range(len(self))[row]
        if not self._ended[row]:
            return None
        place = int(np.count_nonzero(self._ended[:row]))
        if isinstance(self.stacked, dict):
            return {name: column[place] for name, column in self.stacked.items()}
        return self.stacked[place]


def _ended(num_rows: int, data: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    ended = np.zeros(num_rows, dtype=np.bool_)
    ended[data["final"]["rows"] if "final" in data else []] = True
    return ended


def _add_errors(infos: dict[str, Any], parts: Sequence[Part]) -> None:
    errors, start = {}, 0
    failed = np.zeros(sum(len(numbers) for numbers, _ in parts), dtype=np.bool_)
    for numbers, data in parts:
        for row, error in data.get("errors", {}).items():
            errors[numbers[int(row)]] = error_from_wire(error)
            failed[start + int(row)] = True
        start += len(numbers)
    if errors:
        infos["errors"], infos["failed"] = errors, failed


def _joined(arrays: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
