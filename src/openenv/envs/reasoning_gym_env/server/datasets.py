"""The datasets of reasoning-gym: their settings, checked, their tasks by seed, and the scores of answers."""

import dataclasses
import difflib
import random
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from reasoning_gym.factory import CURRICULA, DATASETS, create_curriculum

from openenv.envs.reasoning_gym_env.server.scores import safe_score
from openenv.formats.json_text import json_text

NAMES = tuple(sorted(set(DATASETS) - {"composite"}))
"""All datasets, without the one that is made of others."""
MOST_DATASETS, MOST_TASKS = 32, 1024
"""Datasets and tasks that are kept; the oldest go first."""
_MADE_BY_SEED = frozenset({"acre", "gsm_symbolic", "list_functions"})
"""Datasets that draw from their seed when they are made: they are made anew for each task."""
_OWN_FIELDS = frozenset({"seed", "size"})
_FILE_FIELDS = frozenset({"data_file", "static_font"})
_TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,30}|[-+*/%&|^]{1,2}|[.,;:!?]|\d\d:\d\d:\d\d")
"""Texts in settings: words, operators, marks, dates and times.

Some datasets put them into expressions that Python evaluates: they cannot call anything.
"""


class Datasets:
    """Makes tasks and scores answers.

    Global random numbers are set before each task, since some datasets draw from them: use it in a process of its own.
    """

    def __init__(self) -> None:
        self._datasets: OrderedDict[str, Any] = OrderedDict()
        self._tasks: OrderedDict[str, Any] = OrderedDict()

    def task(self, dataset: str, level: int | None, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """The question of a seed. Raises ValueError for a wrong dataset, level or setting."""
        entry = self._entry(dataset, level, settings, seed)
        return {"question": str(entry["question"])}

    def score(
        self, dataset: str, level: int | None, settings: Mapping[str, Any], seed: int, answer: str
    ) -> dict[str, Any]:
        """The score of an answer, 0 to 1, and the reference answer, or None."""
        entry = self._entry(dataset, level, settings, seed)
        reference = entry["answer"]
        score = safe_score(dataset, self._dataset(dataset, level, settings, seed), answer, entry)
        return {"score": score, "reference": None if reference is None else str(reference)}

    def _entry(self, name: str, level: int | None, settings: Mapping[str, Any], seed: int) -> Any:
        key = json_text([name, level, settings, seed], sort_keys=True)
        if key not in self._tasks:
            dataset = self._dataset(name, level, settings, seed)
            _set_global_seeds(seed)
            if name == "codeio":
                type(dataset)._jsonl_data = dataset.rows
            self._tasks[key] = dataset[0]
            _drop_oldest(self._tasks, MOST_TASKS)
        return self._tasks[key]

    def _dataset(self, name: str, level: int | None, settings: Mapping[str, Any], seed: int) -> Any:
        """The dataset of a seed: a kept one that is given the seed, or a new one."""
        key = json_text([name, level, settings], sort_keys=True)
        dataset = self._datasets.pop(key, None)
        if dataset is None or (name in _MADE_BY_SEED and dataset.seed != seed):
            dataset = _make(name, make_config(name, level, settings, seed))
            if name == "codeio":  # its class keeps the rows of the dataset that was made last
                dataset.rows = type(dataset)._jsonl_data
        dataset.seed = dataset.config.seed = seed
        self._datasets[key] = dataset
        _drop_oldest(self._datasets, MOST_DATASETS)
        return dataset


def tasks() -> dict[str, dict[str, Any]]:
    """Reset keywords of each dataset, by its name."""
    return {name: {"dataset": name} for name in NAMES}


def make_config(name: str, level: int | None, settings: Mapping[str, Any], seed: int) -> Any:
    """The configuration of a dataset: its defaults, or those of a level, with the settings.

    Raises ValueError, naming the field, for a wrong value.
    """
    if name not in NAMES:
        raise ValueError(f"dataset={name!r:.80} is not among the {len(NAMES)} datasets.{_near(name, NAMES)}")
    config_class = DATASETS[name][1]
    fields = {field.name: field for field in dataclasses.fields(config_class) if field.name not in _OWN_FIELDS}
    values = {} if level is None else _values_of_level(name, level, fields)
    for key, value in settings.items():
        if key in _FILE_FIELDS and key in fields:
            raise ValueError(f"settings.{key}: it names a file of the server. Leave it out.")
        if key not in fields:
            raise ValueError(
                f"settings.{key:.80} is not a setting of {name}.{_near(key, fields)} Known: {_list(fields)}."
            )
        values[key] = _checked(key, value, fields[key].type)
    try:
        config = config_class(**values, seed=seed)
        if hasattr(config, "validate"):  # two datasets check nothing
            config.validate()
    except Exception as error:  # border: the library asserts, and computes with values of any type
        given = f"level={level}, settings={json_text(settings)[:200]}"
        raise ValueError(f"{given} of {name}: {str(error) or type(error).__name__}. Change them.") from error
    return config


def _values_of_level(name: str, level: int, fields: Iterable[str]) -> dict[str, Any]:
    if name not in CURRICULA:
        raise ValueError(f"level={level}: {name} has no curriculum. Leave level out, and use settings.")
    curriculum = create_curriculum(name)
    highest = max(len(attribute.levels) for attribute in curriculum.attributes.values()) - 1
    if not 0 <= level <= highest:
        raise ValueError(f"level={level}: {name} has the levels 0 to {highest}.")
    curriculum.set_global_level(level)
    config = curriculum.generate_configuration()
    return {field: getattr(config, field) for field in fields}


def _checked(name: str, value: Any, declared: Any) -> Any:
    """A setting as its type. `tuple[str]` stands for a tuple of any length, as the library uses it."""
    kind = tuple[str, ...] if declared == tuple[str] else declared
    _refuse_odd_text(name, value)
    try:
        return TypeAdapter(kind).validate_json(json_text(value), strict=True)
    except ValidationError as error:
        shown = getattr(declared, "__name__", str(declared)) if isinstance(declared, type) else str(declared)
        raise ValueError(f"settings.{name}={value!r:.80}: expected {shown}; {error.errors()[0]['msg']}.") from error


def _refuse_odd_text(name: str, value: Any) -> None:
    if isinstance(value, str) and not _TEXT.fullmatch(value):
        raise ValueError(f"settings.{name}: {value!r:.80} is neither words of letters and digits nor an operator.")
    if isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            _refuse_odd_text(name, part)


def _make(name: str, config: Any) -> Any:
    _set_global_seeds(config.seed)
    try:
        return DATASETS[name][0](config=config)
    except Exception as error:  # border: see make_config
        raise ValueError(f"{name} cannot be made with these settings: {str(error) or type(error).__name__}") from error


def _set_global_seeds(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)


def _drop_oldest(kept: OrderedDict[str, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names) - _FILE_FIELDS)) or "none"
