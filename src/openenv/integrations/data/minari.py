"""Episodes as a Minari dataset: observations and actions as values of Gymnasium's spaces.

A field is a number, a truth value, a text, an array of one shape, or an object of such fields. What else a field may be
(null, lists of several lengths, objects with changing keys) has no space, and is an error that names the field.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv.evaluation.episode_files.records import RecordedEpisode
from openenv.installation import install_line
from openenv.schema.samples import resolved

if TYPE_CHECKING:
    from gymnasium import Space

_LEFT_OUT = frozenset({"metadata", "type"})
"""Fields that are no part of what is seen or done."""

Encode = Callable[[Sequence[Any]], Any]
"""Turns the values of one episode into what Minari's buffers hold: an array, a list, or a dictionary of these."""


class NotExpressible(ValueError):
    """A field has values that no space of Gymnasium has. The message names the field."""


def write_dataset(episodes: Sequence[RecordedEpisode], target: Path, *, fields: Sequence[str] = ()) -> str:
    """Write a dataset. `minari.load_dataset(target.name)` reads it with MINARI_DATASETS_PATH set to the folder above.

    target: its last part is the dataset's id, such as `blackjack-v0`. fields: the observation's fields to write; all,
    if there are none. Episodes without an action, and those in which the environment failed, are left out. A reward of
    None is 0. Raises NotExpressible, ValueError for another id, and ImportError without Minari.
    """
    storage_class, buffer_class, parse_id = _library()
    parse_id(target.name)
    target = target.resolve()  # Minari joins paths to itself
    written = [episode for episode in episodes if episode.outcome != "invalid" and episode.steps]
    if not written:
        raise ValueError("no valid episode has an action: there is nothing to write.")
    source = written[0].source
    seen = [_observations(episode, fields) for episode in written]
    done = [[_fields(turn.action) for turn in episode.steps] for episode in written]
    observations, encode_observations = _space("observation", _flat(seen), source.observation_schema)
    actions, encode_actions = _space("action", _flat(done), source.action_schema)
    target.joinpath("data").mkdir(parents=True)
    storage = storage_class.new(
        target / "data",
        observation_space=observations,
        action_space=actions,
        data_format="arrow",
        jpeg_encoding=False,  # as recorded, bit for bit
    )
    storage.update_metadata(
        {
            "dataset_id": target.name,
            "minari_version": version("minari"),
            "algorithm_name": ", ".join(dict.fromkeys(episode.source.policy for episode in written)),
            "description": f"Episodes of the environment {source.environment}, recorded by openenv.",
        }
    )
    storage.update_episodes(
        buffer_class(
            id=number,
            seed=episode.seed,
            options=episode.source.reset,
            observations=encode_observations(seen[number]),
            actions=encode_actions(done[number]),
            rewards=[turn.reward or 0.0 for turn in episode.steps],
            terminations=[turn.done and not turn.truncated for turn in episode.steps],
            truncations=_truncations(episode),
        )
        for number, episode in enumerate(written)
    )
    left_out = len(episodes) - len(written)
    return f"{len(written)} episodes in {target}" + (f"; {left_out} without a valid step left out" if left_out else "")


def _library() -> Any:
    try:
        from minari.data_collector.episode_buffer import EpisodeBuffer
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.dataset.minari_storage import MinariStorage
    except ImportError as error:
        raise ImportError(f"a Minari dataset needs an extra: {install_line('data')}") from error
    return MinariStorage, EpisodeBuffer, parse_dataset_id


def _truncations(episode: RecordedEpisode) -> list[bool]:
    """Which steps were cut short: also the last one of an episode that a limit or a reply without an action ended."""
    steps = episode.steps
    return [*(False for _ in steps[:-1]), steps[-1].truncated or not steps[-1].done]


def _observations(episode: RecordedEpisode, fields: Sequence[str]) -> list[dict[str, Any]]:
    """What was seen before each action and after the last one."""
    seen = [*(turn.observation for turn in episode.steps), episode.final_observation]
    if any(one is None for one in seen):
        raise NotExpressible(f"episode {episode.episode_id} was recorded without observations, which Minari needs")
    chosen = [_fields(one) for one in seen]
    missing = set(fields) - chosen[0].keys()
    if missing:
        raise ValueError(f"fields={sorted(missing)}: the observation has {', '.join(chosen[0])}")
    return [{name: value for name, value in one.items() if not fields or name in fields} for one in chosen]


def _fields(message: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (message or {}).items() if name not in _LEFT_OUT}


def _flat(parts: Sequence[Sequence[Any]]) -> list[Any]:
    return [value for part in parts for value in part]


def _space(name: str, values: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> tuple["Space[Any]", Encode]:
    """The space of messages: that of their only field, or a Dict."""
    properties = {key: resolved(schema, part) for key, part in schema.get("properties", {}).items()}
    space, encode = _object_space(name, values, properties)
    if len(space.spaces) == 1:
        (only,) = space.spaces
        return space.spaces[only], lambda messages: encode(messages)[only]
    return space, encode


def _object_space(path: str, values: Sequence[Mapping[str, Any]], schemas: Mapping[str, Any]) -> tuple[Any, Encode]:
    from gymnasium import spaces

    names = list(values[0])
    for value in values:
        if value.keys() != values[0].keys():
            differing = ", ".join(sorted(value.keys() ^ values[0].keys()))
            raise NotExpressible(_problem(path, f"its fields change from step to step ({differing})"))
    if not names:
        raise NotExpressible(_problem(path, "it has no fields"))
    parts = {n: _field_space(f"{path}.{n}", [v[n] for v in values], schemas.get(n, {})) for n in names}

    def encode(messages: Sequence[Any]) -> dict[str, Any]:
        return {name: part([message[name] for message in messages]) for name, (_, part) in parts.items()}

    return spaces.Dict({name: space for name, (space, _) in parts.items()}), encode


def _field_space(path: str, values: Sequence[Any], schema: Mapping[str, Any]) -> tuple["Space[Any]", Encode]:
    import numpy as np  # the extra `data`
    from gymnasium import spaces

    kinds = {type(value) for value in values}
    if type(None) in kinds:
        raise NotExpressible(_problem(path, "it is null in some steps"))
    if kinds == {bool}:
        return spaces.Discrete(2), lambda some: np.array(some, np.int64)
    if kinds == {str}:
        return _text_space(values), list
    if kinds == {dict}:
        return _object_space(path, values, {})
    if kinds == {int}:
        return _integer_space(path, values, schema)
    if kinds <= {int, float}:
        low, high = schema.get("minimum", -np.inf), schema.get("maximum", np.inf)
        return spaces.Box(low, high, (), np.float64), lambda some: np.array(some, np.float64)
    if kinds == {list}:
        return _array_space(path, values)
    raise NotExpressible(_problem(path, f"it has values of several types ({', '.join(k.__name__ for k in kinds)})"))


def _integer_space(path: str, values: Sequence[int], schema: Mapping[str, Any]) -> tuple["Space[Any]", Encode]:
    """A Discrete where the schema has both bounds, else a Box."""
    import numpy as np  # the extra `data`
    from gymnasium import spaces

    if max(map(abs, values)) > np.iinfo(np.int64).max:
        raise NotExpressible(_problem(path, "it has whole numbers beyond 64 bits"))
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and all(low <= value <= high for value in values):
        space: Any = spaces.Discrete(int(high) - int(low) + 1, start=int(low))
    else:
        space = spaces.Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (), np.int64)
    return space, lambda some: np.array(some, np.int64)


def _text_space(values: Sequence[str]) -> Any:
    from gymnasium import spaces

    letters = "".join(sorted(set("".join(values)) | {" "}))
    return spaces.Text(max(max(map(len, values)), 1), min_length=0, charset=letters)


def _array_space(path: str, values: Sequence[Any]) -> tuple["Space[Any]", Encode]:
    import numpy as np  # the extra `data`
    from gymnasium import spaces

    try:
        array = np.array(values)
    except ValueError:
        raise NotExpressible(_problem(path, "its lists have several lengths")) from None
    if array.dtype.kind not in "biuf" or array.size == 0:
        raise NotExpressible(_problem(path, "its lists are empty, or have elements that are no numbers"))
    dtype: Any = np.float64 if array.dtype.kind == "f" else np.int64
    if array.dtype.kind == "b":
        return spaces.MultiBinary(array.shape[1:]), lambda some: np.array(some, np.int8)
    if dtype is np.float64:
        low, high = -np.inf, np.inf
    else:
        low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return spaces.Box(low, high, array.shape[1:], dtype), lambda some: np.array(some, dtype)


def _problem(path: str, reason: str) -> str:
    return (
        f"{path} has no space of Gymnasium: {reason}. Choose other fields of the observation (--fields NAME,NAME), or "
        "export to datasets or atif, which take any value."
    )
