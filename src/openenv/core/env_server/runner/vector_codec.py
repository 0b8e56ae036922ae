"""The data of a vector session's requests and responses: rows are read and validated, batches are packed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from openenv.core.env_server.vector_environment import Column, VectorBatch, VectorEnvironment
from openenv.core.errors import InvalidMessage
from openenv.core.wire.arrays import Buffers, escaped, looks_like_arrays, read_frame
from openenv.core.wire.json_codec import to_plain
from openenv.core.wire.server_codec import error_data, error_json


def read_env_ids(data: Mapping[str, Any], num_envs: int) -> list[int]:
    """The environments that a request names; all of them if it names none. Raises InvalidMessage."""
    env_ids = data.get("env_ids")
    if env_ids is None:
        return list(range(num_envs))
    if isinstance(env_ids, np.ndarray):
        env_ids = env_ids.tolist()
    is_list = isinstance(env_ids, list) and bool(env_ids)
    if not is_list or not all(type(env_id) is int and 0 <= env_id < num_envs for env_id in env_ids):
        raise InvalidMessage(f"env_ids: give a list of numbers from 0 to {num_envs - 1}")
    if len(set(env_ids)) < len(env_ids):
        raise InvalidMessage("env_ids: an environment is named twice")
    return list(env_ids)


def read_rows(data: Mapping[str, Any], key: str, num_rows: int) -> list[dict[str, Any]]:
    """The list of objects under `key`, one for each row. `resets` may be left out. Raises InvalidMessage."""
    rows = data.get(key)
    if rows is None and key == "resets":
        return [{} for _ in range(num_rows)]
    if not isinstance(rows, list) or len(rows) != num_rows or not all(isinstance(row, dict) for row in rows):
        raise InvalidMessage(f"{key}: give a list of objects, one for each of {num_rows} environments")
    return rows


def read_actions(data: Mapping[str, Any], num_rows: int) -> dict[str, Any]:
    """The columns of actions, by field. Raises InvalidMessage."""
    actions = data.get("actions")
    if not isinstance(actions, dict) or not actions:
        raise InvalidMessage("actions: give an object with a column for each field of the action")
    for name, column in actions.items():
        is_column = column.ndim > 0 if isinstance(column, np.ndarray) else isinstance(column, list)
        if not is_column or len(column) != num_rows:
            raise InvalidMessage(f"actions.{name}: give one value for each of {num_rows} environments")
    return actions


def rows_of(column: Any, rows: Sequence[int]) -> Any:
    """Some rows of a column."""
    return column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]


def encode_batch(
    batch: VectorBatch, final: Mapping[str, Any], vector: VectorEnvironment, fields: Mapping[str, Any]
) -> tuple[bytes, list[bytes]]:
    """JSON and arrays of a batch. final: rows and observations of ended episodes. fields: further fields."""
    data, arrays = _encode_batch(batch, final, vector, fields, _as_it_is)
    if looks_like_arrays(data, len(arrays)):
        data, arrays = _encode_batch(batch, final, vector, fields, _escaped)
    return data, arrays


def _encode_batch(
    batch: VectorBatch,
    final: Mapping[str, Any],
    vector: VectorEnvironment,
    fields: Mapping[str, Any],
    prepared: Callable[[Any], Any],
) -> tuple[bytes, list[bytes]]:
    """prepared: makes of an environment's data what stands in the JSON."""
    buffers = Buffers(copies=False)
    body: dict[str, Any] = {
        "observation": _packed(batch.observation, vector, buffers, prepared),
        "reward": buffers.add(batch.reward),
        "terminated": buffers.add(batch.terminated),
        "truncated": buffers.add(batch.truncated),
    }
    if batch.errors:
        body["errors"] = prepared({str(row): error_data(error) for row, error in batch.errors.items()})
    if final:
        rows = buffers.add(np.array(final["rows"]))
        body["final"] = {"rows": rows, "observation": _packed(final["observation"], vector, buffers, prepared)}
    body |= fields
    return _dumps(body), buffers.parts


def _dumps(body: Any) -> bytes:
    try:
        return orjson.dumps(body, default=_to_plain)
    except TypeError:  # half a surrogate pair, an integer beyond 64 bits
        return error_json(body)


def _as_it_is(data: Any) -> Any:
    return data


def _escaped(data: Any) -> Any:
    return escaped(read_frame(_dumps(data)))


def _packed(
    columns: Mapping[str, Column], vector: VectorEnvironment, buffers: Buffers, prepared: Callable[[Any], Any]
) -> dict[str, Any]:
    """Columns as they are sent. The row of an environment that never had an observation is empty."""
    packed: dict[str, Any] = {}
    for name, column in columns.items():
        if name in vector.ragged_fields:
            rows = [() if row is None else row for row in column]
            offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
            values = np.array([value for row in rows for value in row], dtype=np.int64)
            packed[name] = {"values": buffers.add(values), "offsets": buffers.add(offsets)}
        elif name in vector.text_fields:
            packed[name] = ["" if row is None else row for row in column]
        elif isinstance(column, list):
            packed[name] = prepared(column)
        else:
            packed[name] = buffers.add(column)
    return packed


def _to_plain(value: Any) -> Any:
    """Values in columns that are lists: messages, sets, and numpy's numbers."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", serialize_as_any=True)
    return list(value) if isinstance(value, set | frozenset) else to_plain(value)
