"""The answers of several sessions of one vector, made to fit together."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from openenv.core.errors import EnvironmentFault

Answer = dict[str, Any]


def of_one_shape(answers: Sequence[Answer]) -> Sequence[Answer]:
    """Answers whose arrays have rows of the shape that most rows have.

    Who has another has zeros in their place, errors that name the field, and NaN for rewards; its episodes go on.
    Raises EnvironmentFault where they answer a reset, which can be asked for again.
    """
    shown = [dict(answer["observation"]) for answer in answers]
    last = [dict(answer["final"]["observation"]) if "final" in answer else {} for answer in answers]
    odd, odd_last = _made_alike(shown), _made_alike(last)
    if odd and "seeds" in answers[0]:
        raise EnvironmentFault(next(iter(odd.values())))
    alike = list(answers)
    for place in {*odd, *odd_last}:
        answer = answers[place]
        reward = np.array(answer["reward"])
        said = dict.fromkeys(answer["final"]["rows"], odd_last[place]) if place in odd_last else {}
        if place in odd:
            said |= dict.fromkeys(range(len(reward)), odd[place])
        reward[list(said)] = np.nan
        errors = {str(row): {"code": EnvironmentFault.code, "message": text} for row, text in said.items()}
        alike[place] = {
            **answer,
            "observation": shown[place],
            "reward": reward,
            "errors": {**errors, **answer.get("errors", {})},
        }
        if "final" in answer:
            alike[place]["final"] = {**answer["final"], "observation": last[place]}
    return alike


def _made_alike(sides: Sequence[dict[str, Any]]) -> dict[int, str]:
    """Put zeros where arrays have rows of other shapes than most; returns what is wrong, by the side's place."""
    wrong: dict[int, str] = {}
    for name in {name: None for columns in sides for name in columns}:
        arrays = {place: columns[name] for place, columns in enumerate(sides) if _is_array(columns.get(name))}
        counted = Counter[tuple[int, ...]]()
        for array in arrays.values():
            counted[array.shape[1:]] += len(array)
        if len(counted) < 2:
            continue
        common = counted.most_common(1)[0][0]
        for place, array in arrays.items():
            if array.shape[1:] != common:
                sides[place][name] = np.zeros((len(array), *common), dtype=array.dtype)
                wrong[place] = (
                    f"{name}: shape {array.shape[1:]} in one session beside shape {common} in others cannot be "
                    "stacked: pad what is shorter, or receive each session's answer by itself with `recv`"
                )
    return wrong


def _is_array(column: Any) -> bool:
    return isinstance(column, np.ndarray)
