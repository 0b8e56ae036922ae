"""Arrays in messages: a field type for them, and frames that carry them as raw bytes instead of JSON numbers.

A binary frame is the JSON of a text frame in which each array is replaced by `{"$array": [number, dtype, shape]}`,
followed by the arrays. Data of the same form has a further `$`: `{"$$array": 5}` stands for `{"$array": 5}`.

    byte 0       1, which begins no JSON text
    bytes 1-3    0
    bytes 4-7    length of the JSON, little-endian
    the JSON, then each array's elements in C order and little-endian; JSON and arrays are padded with zeros to 8 bytes
"""

import functools
import json
import math
import re
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import core_schema, from_json

from openenv.core.wire.json_codec import to_plain, with_long_integers, write_json
from openenv.schema.message_schema import ANY_DTYPE

if TYPE_CHECKING:
    import numpy as np

_BINARY_MARK = b"\x01"
_HEAD = struct.Struct("<B3xI")
BINARY_HEAD_BYTES = _HEAD.size
_PADDING = tuple(bytes(-length % 8) for length in range(8))
_KEY = "$array"
_KEY_IN_JSON = b'$array":'
_ESCAPABLE, _ESCAPED = re.compile(r"\$+array"), re.compile(r"\$\$+array")
_KINDS = frozenset("biuf")
"""Booleans, integers and floats: dtypes whose elements are their bytes."""
_DTYPE = re.compile(r"[<>|=]?[biuf]\d{1,2}")
_LONGEST_EMPTY = 1 << 16
_MOST_DIMENSIONS = 64
"""As numpy has it."""


class BinaryFrame(bytes):
    """A message that travels in a binary frame."""

    __slots__ = ()


class _ArrayField:
    """Pydantic's schema of an array: lists are read as one, and it is written as nested lists."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(_written, info_arg=True, when_used="json")
        return core_schema.no_info_plain_validator_function(_as_array, serialization=written)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        parts = [{"type": kind} for kind in ("number", "boolean", "array")]
        return {"type": "array", "items": {"anyOf": parts}, "dtype": ANY_DTYPE}


if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Annotated[Any, _ArrayField]
"""A field of a message that holds a numpy array: pixels, joint angles. It needs numpy installed. A `Box` beside it
declares the shape, the kind of numbers and their bounds."""


class _ValueField:
    """Pydantic's schema of a JSON value or an array: nothing is converted, and arrays are written as in an Array."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(_written_value, info_arg=True, when_used="json")
        return core_schema.any_schema(serialization=written, metadata={WITHOUT_ARRAYS_IS_PLAIN_JSON: True})

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        kinds = ("integer", "number", "string", "array", "object")
        return {"anyOf": [{"type": "array", "items": {}} if kind == "array" else {"type": kind} for kind in kinds]}


WITHOUT_ARRAYS_IS_PLAIN_JSON = "openenv_without_arrays_is_plain_json"
"""Metadata of a field's schema: a value without arrays is plain JSON, which needs no serializer."""

JsonOrArray = Annotated[Any, _ValueField]
"""A field of a message that holds a number, a text, or lists and objects of them, in which numpy arrays may stand. An
array arrives as an array where the client reads arrays, else as nested lists. Values are not validated."""


def is_array_field(field: FieldInfo) -> bool:
    """Whether a message's field is declared as an Array."""
    return _ArrayField in field.metadata


@functools.lru_cache(maxsize=256)
def has_array_fields(message_cls: Any) -> bool:
    """Whether any field of a message class may hold arrays; classes that are no models have none."""
    fields = getattr(message_cls, "model_fields", {}).values()
    return any(is_array_field(field) or _ValueField in field.metadata for field in fields)


def _as_array(value: Any) -> Any:
    # numpy belongs to messages that have arrays; all others do without
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"is no array of numbers: {error}") from None
    if array.dtype.kind not in _KINDS:
        raise ValueError(f"is no array of numbers, its elements are {array.dtype}")
    return array


def _written(array: Any, info: core_schema.SerializationInfo) -> Any:
    """An array in JSON: its place in the buffers that the serializer was given, or nested lists."""
    buffers = info.context
    return buffers.add(array) if isinstance(buffers, Buffers) and is_array(array) else array.tolist()


def _written_value(value: Any, info: core_schema.SerializationInfo) -> Any:
    """A JSON value with each array in it as `_written` has it."""
    if is_array(value):
        return _written(value, info)
    if isinstance(value, Mapping):
        return {key: _written_value(item, info) for key, item in value.items()}
    return [_written_value(item, info) for item in value] if isinstance(value, list | tuple) else value


def is_array(value: Any) -> bool:
    """Whether `value` is a numpy array that can travel as raw bytes."""
    ndarray = getattr(sys.modules.get("numpy"), "ndarray", None)  # None while another thread imports numpy
    return ndarray is not None and isinstance(value, ndarray) and value.dtype.kind in _KINDS and value.ndim > 0


class Buffers:
    """Collects the arrays of one message."""

    def __init__(self, *, copies: bool = True) -> None:
        """copies: False for arrays that nothing changes any more."""
        self.parts: list[bytes] = []
        self._copies = copies

    def add(self, array: Any) -> dict[str, Any]:
        """What stands in the JSON for an array."""
        text = _text_of(array.dtype)
        if text[0] == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
            text = _text_of(array.dtype)
        parts = self.parts
        is_view = not self._copies and array.size and array.flags.c_contiguous
        parts.append(array.data.cast("B") if is_view else array.tobytes())
        return {_KEY: [len(parts) - 1, text, array.shape]}


@functools.lru_cache(maxsize=64)
def _text_of(dtype: Any) -> str:
    text: str = dtype.str
    return text


def pack(head: bytes, parts: Sequence[bytes]) -> BinaryFrame:
    """The binary frame of a message: its JSON and its arrays."""
    pieces = [_HEAD.pack(1, len(head)), head, _PADDING[len(head) % 8]]
    for part in parts:
        pieces.append(part)
        if len(part) % 8:
            pieces.append(_PADDING[len(part) % 8])
    return BinaryFrame(b"".join(pieces))


def packed(message: Any) -> BinaryFrame:
    """The binary frame of an object with arrays anywhere in it. Raises TypeError for what JSON cannot represent."""
    try:
        head, parts = _split_off_arrays(message)
    except TypeError:
        head, parts = _split_off_arrays(with_long_integers(message))
    if looks_like_arrays(head, len(parts)):
        head, parts = _split_off_arrays(with_long_integers(escaped(message)))
    return pack(head, parts)


def _split_off_arrays(message: Any) -> tuple[bytes, list[bytes]]:
    buffers = Buffers()

    def replace(value: Any) -> Any:
        return buffers.add(value) if is_array(value) else to_plain(value)

    return orjson.dumps(message, default=replace), buffers.parts


def looks_like_arrays(head: bytes, num_arrays: int) -> bool:
    """Whether the JSON of a message with so many arrays has data that would be read as an array: to be `escaped`."""
    return head.count(_KEY_IN_JSON) != num_arrays


def escaped(value: Any) -> Any:
    """`value` with a further `$` in each `{"$array": ...}`, so that it is read as the data that it is."""
    if type(value) is dict:
        if len(value) == 1 and _ESCAPABLE.fullmatch(str(next(iter(value)))):
            value = {f"${key}": one for key, one in value.items()}
        return {key: escaped(one) for key, one in value.items()}
    return [escaped(one) for one in value] if type(value) in (list, tuple) else value


def read_frame(frame: str | bytes) -> Any:
    """The value in a text or binary frame, with exact integers. Raises ValueError for any other.

    pydantic-core reads integers of any size and NaN. It does not read half a surrogate pair, which the published server
    may send; Python's standard library does.
    """
    if isinstance(frame, bytes) and (frame[:1] == _BINARY_MARK or type(frame) is BinaryFrame):
        return unpacked(frame)
    try:
        return from_json(frame)
    except ValueError:
        try:
            return json.loads(frame if isinstance(frame, str) else frame.decode())  # of bytes it reads UTF-16, too
        except RecursionError:
            raise ValueError("nested too deeply") from None


def unpacked(frame: bytes) -> Any:
    """The object in a binary frame, its arrays as read-only views of the frame. Raises ValueError for any other."""
    head, start = split(frame)
    places: list[_Place] = []
    root = {"": read_frame(head)}
    try:
        _find(root, places)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    places.sort(key=_number)
    _put_views(places, frame, start)
    return root[""]


def split(frame: bytes) -> tuple[bytes, int]:
    """The JSON of a binary frame, and where its arrays begin. Raises ValueError when it is cut short, or none."""
    if len(frame) < _HEAD.size or frame[:1] != _BINARY_MARK:
        raise ValueError("a binary frame begins with 1, 0, 0, 0 and the length of its JSON")
    _, length = _HEAD.unpack_from(frame)
    end = _HEAD.size + length
    if end > len(frame):
        raise ValueError(f"a binary frame with {length} bytes of JSON ends after {len(frame) - _HEAD.size}")
    return frame[_HEAD.size : end], end + -length % 8


def inlined(data: bytes, parts: Sequence[bytes]) -> bytes:
    """The JSON with its arrays as nested lists, as text frames have them."""
    return write_json(unpacked(pack(data, parts)), default=to_plain)


_Place = tuple[Any, Any, Any]
"""The place of an array: an object or list, its key there, and the array's description."""


def _find(holder: Any, places: list[_Place]) -> None:
    """The places in `holder` where arrays stand. Data that was `escaped` is restored."""
    for key, value in holder.items() if type(holder) is dict else enumerate(holder):
        kind = type(value)
        if kind is dict:
            if len(value) == 1 and _KEY in value:
                places.append((holder, key, value[_KEY]))
                continue
            if len(value) == 1 and _ESCAPED.fullmatch(next(iter(value))):
                value = holder[key] = {name[1:]: one for name, one in value.items()}
            _find(value, places)
        elif kind is list:
            _find(value, places)


def _put_views(places: Sequence[_Place], frame: bytes, start: int) -> None:
    """Replace the description of each array, in the order of their numbers, by a view of it."""
    import numpy as np

    end = len(frame)
    for number, (holder, key, (wanted, dtype_text, shape)) in enumerate(places):
        if wanted != number:
            raise ValueError(f"array {number} is missing, or named twice")
        if type(shape) is not list or len(shape) > _MOST_DIMENSIONS:
            raise ValueError(f"a shape is a list of at most {_MOST_DIMENSIONS} sizes, not {str(shape)[:80]}")
        try:
            dtype, sizes, num_bytes = _layout(dtype_text, *shape)
        except TypeError:  # an object or list, which cannot be looked up
            given = str([dtype_text, shape])[:80]
            raise ValueError(f"array {number} has a text as dtype and whole numbers as shape, not {given}") from None
        if start + num_bytes > end:
            raise ValueError(f"array {number} of shape {shape} goes beyond the frame's end")
        holder[key] = np.ndarray(sizes, dtype, frame, start)
        start += num_bytes + -num_bytes % 8


def _number(place: _Place) -> int:
    ref = place[2]
    if not (type(ref) is list and len(ref) == 3 and type(ref[0]) is int):
        raise ValueError(f"{_KEY} is [number, dtype, shape], not {str(ref)[:80]}")
    number: int = ref[0]
    return number


@functools.lru_cache(maxsize=1024, typed=True)
def _layout(dtype_text: str, *sizes: int) -> tuple[Any, tuple[int, ...], int]:
    """An array's dtype, shape and bytes. Raises ValueError for what is none."""
    shape = str(list(sizes))[:80]
    for size in sizes:
        if type(size) is not int or not 0 <= size < 1 << 40:
            raise ValueError(f"a shape is a list of sizes, not {shape}")
    count = math.prod(sizes)
    if count == 0 and max(sizes) > _LONGEST_EMPTY:
        raise ValueError(f"a shape without elements has sizes of at most {_LONGEST_EMPTY}, not {shape}")
    dtype = _dtype(str(dtype_text))
    return dtype, sizes, dtype.itemsize * count


def _dtype(text: str) -> Any:
    import numpy as np

    if not _DTYPE.fullmatch(text):
        raise ValueError(f"dtype {text[:40]!r} is none of booleans, integers and floats")
    try:
        return np.dtype(text)
    except TypeError:
        raise ValueError(f"dtype {text[:40]!r} is not known") from None
