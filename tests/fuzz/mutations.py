"""Invalid frames, made from valid ones."""

import copy
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Frame = str | bytes
"""bytes: to be sent as a binary frame."""

ODD_VALUES: Sequence[Any] = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e-300, 1e308, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400,
    float("inf"), float("nan"), "", "x", "null", "\x00", "\u2028", "\U0001f600", "\ud800", "x" * 300, "y" * 70_000,
    "1e5", [], [[]], {}, {"": ""}, {"type": "reset"}, [None] * 100, {"a": {"b": {"c": [1, {"d": 2}]}}}, "__class__",
    "%s%n", "{0}", "' OR 1=1",
)  # fmt: skip
WORDS = (
    "type", "data", "id", "timeout_s", "seed", "episode_id", "action_id", "message", "token", "count", "method",
    "params", "jsonrpc", "arguments", "name", "metadata", "session_id", "validity", "close", "reset", "",
)  # fmt: skip
DTYPES = ("<i8", "|b1", "<f4", "<f8", "|u1", ">i2", "<c16", "|O", "<U4", "<f3", "<M8[s]", "", "i8" * 100, 3)
SHAPES: Sequence[Any] = ([3], [3], [3], [1, 3], [], [0], [-1], [2**62, 2], [3] * 40, [0, 2**39], 3, "3", [1.0], [None])


class FrameFuzzer:
    """Draws frames; equal generators draw equal ones."""

    def __init__(self, rng: Random, valid: Sequence[dict[str, Any]]) -> None:
        self._rng = rng
        self._valid = valid
        self._ways: Sequence[Callable[[str], Frame]] = (
            self._cut_short, self._bytes_flipped, self._nested, self._key_twice, self._as_binary, self._huge_number,
            self._glued, self._not_an_object, self._packed_oddly,
        )  # fmt: skip

    def frame(self) -> Frame:
        """One frame: half of them JSON of the right shape with odd values, a fifth valid, the rest mangled text."""
        message = copy.deepcopy(self._rng.choice(self._valid))
        draw = self._rng.random()
        if draw < 0.2:
            return json.dumps(message)
        if draw < 0.7:
            for _ in range(self._rng.randint(1, 3)):
                self._make_odd(message)
            return json.dumps(message)
        return self._rng.choice(self._ways)(json.dumps(message))

    def _make_odd(self, message: dict[str, Any]) -> None:
        """Change, remove or add one field somewhere in the message."""
        place = message
        while (inner := [value for value in place.values() if isinstance(value, dict)]) and self._rng.random() < 0.7:
            place = self._rng.choice(inner)
        known = [*place] or ["data"]
        what = self._rng.random()
        if what < 0.6:
            place[self._rng.choice(known)] = self._odd_value()
        elif what < 0.75:
            place.pop(self._rng.choice(known), None)
        else:
            place[self._rng.choice(WORDS)] = self._odd_value()

    def _odd_value(self) -> Any:
        return copy.deepcopy(self._rng.choice(ODD_VALUES))

    def _cut_short(self, text: str) -> Frame:
        return text[: self._rng.randrange(len(text))]

    def _bytes_flipped(self, text: str) -> Frame:
        symbols = list(text)
        for _ in range(self._rng.randint(1, 4)):
            symbols[self._rng.randrange(len(symbols))] = chr(
                self._rng.choice((0, 10, 34, 44, 91, 123, 125, 0x2028, 200))
            )
        return "".join(symbols)

    def _nested(self, text: str) -> Frame:
        depth = self._rng.choice((10, 200, 1000, 5000, 100_000))
        opening, closing = self._rng.choice((("[", "]"), ('{"a":', "}")))
        nest = opening * depth + "1" + (closing * depth if self._rng.random() < 0.7 else "")
        return self._rng.choice((nest, text.replace(": {}", f": {nest}", 1), f'{{"type": "step", "data": {nest}}}'))

    def _key_twice(self, text: str) -> Frame:
        return text.replace("{", f'{{"{self._rng.choice(WORDS)}": {json.dumps(self._rng.choice(ODD_VALUES))}, ', 1)

    def _as_binary(self, text: str) -> Frame:
        return text.encode() if self._rng.random() < 0.5 else self._rng.randbytes(self._rng.randint(0, 200))

    def _packed_oddly(self, text: str) -> Frame:
        """A binary frame that refers to an array, or means to."""
        message, rng = json.loads(text), self._rng
        place = message.get("data") if isinstance(message.get("data"), dict) and rng.random() < 0.9 else message
        place = place["actions"] if isinstance(place.get("actions"), dict) and rng.random() < 0.7 else place
        is_array = rng.random() < 0.5
        reference: Any = [0, rng.choice(DTYPES[:6]), rng.choice(SHAPES[:4])]
        array = rng.randbytes(24)
        if not is_array:
            reference = [rng.choice((0, 0, 0, 1, -1, "0")), rng.choice(DTYPES), rng.choice(SHAPES)]
            reference = rng.choice((reference, reference, reference, [], 7, {}))
            array = rng.randbytes(rng.choice((0, 7, 16, 24, 32, 64, 4096)))
        place[rng.choice([*place, *([] if is_array and place else ["data"])])] = {"$array": reference}
        head = json.dumps(message).encode()
        length = len(head)
        if not is_array:
            length = rng.choice((length, length, 0, length - 1, length + 9, 2**32 - 1))
        return b"\x01\x00\x00\x00" + length.to_bytes(4, "little") + head + bytes(-len(head) % 8) + array

    def _huge_number(self, text: str) -> Frame:
        digits = "9" * self._rng.choice((30, 400, 5000, 20_000))
        return text.replace("1", digits, 1) if "1" in text else f'{{"type": "step", "data": {{"action_id": {digits}}}}}'

    def _glued(self, text: str) -> Frame:
        return text + self._rng.choice((text, "\n", "\x00", "}", ",", "//"))

    def _not_an_object(self, text: str) -> Frame:
        return self._rng.choice((f"[{text}]", json.dumps(text), "null", "1", "", " ", "NaN", '"\\ud800"'))


def may_close(frame: Frame) -> bool:
    """Whether a frame may be a request to close."""
    if isinstance(frame, bytes):
        return False
    try:
        message = json.loads(frame)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and message.get("type") == "close"
