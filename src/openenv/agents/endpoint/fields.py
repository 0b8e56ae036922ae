"""Reads the fields of a request's JSON. Each error names the field and the remedy."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Never

from openenv.agents.endpoint.requests import RequestRefused

_NAMES = {str: "a text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}

Part = dict[str, Any]
"""A part of a message's content, of type text or image_url."""


class Fields:
    """A JSON object of a request. A field that is null counts as one that is not given."""

    __slots__ = ("path", "values")

    def __init__(self, value: Any, path: str = "") -> None:
        """path: of the object in the request, such as messages[2]; empty for the request itself.

        Raises RequestRefused for another value than an object.
        """
        if not isinstance(value, dict):
            raise _wrong(path or "body", value, "an object")
        self.values: dict[str, Any] = value
        self.path = path

    def path_of(self, name: str) -> str:
        """The path of a field in the request."""
        return f"{self.path}.{name}" if self.path else name

    def refuse(self, name: str, reason: str) -> Never:
        """Raise RequestRefused for a field."""
        path = self.path_of(name)
        raise RequestRefused(f"{path}: {reason}", field_name=path)

    def refuse_given(self, reason: str, *names: str) -> None:
        """Raise RequestRefused where one of the fields has a value other than null, false or empty."""
        for name in names:
            if self.values.get(name):
                self.refuse(name, reason)

    def _read(self, name: str, kind: type | tuple[type, ...], wanted: str) -> Any:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _wrong(self.path_of(name), value, wanted)
        return value

    def text(self, name: str) -> str | None:
        """A text; None where it is not given."""
        value: str | None = self._read(name, str, "a text")
        return value

    def required_text(self, name: str) -> str:
        """A text that has to be given."""
        value = self.text(name)
        return self.refuse(name, "is missing: give a text") if value is None else value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false."""
        value: bool | None = self._read(name, bool, "true or false")
        return default if value is None else value

    def number(self, name: str) -> float | None:
        """A number; None where it is not given."""
        value: float | None = self._read(name, (int, float), "a number")
        return value

    def whole_number(self, name: str, lowest: int, highest: int | None = None) -> int | None:
        """A whole number within limits; None where it is not given."""
        value: int | None = self._read(name, int, "a whole number")
        if value is not None and (value < lowest or (highest is not None and value > highest)):
            limits = f"from {lowest}" if highest is None else f"from {lowest} to {highest}"
            self.refuse(name, f"is {value}: give a whole number {limits}")
        return value

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """One of the allowed texts, which has to be given."""
        value = self.required_text(name)
        return value if value in allowed else self.refuse(name, f"is {value[:100]!r}: use {' or '.join(allowed)}")

    def object(self, name: str) -> "Fields | None":
        """An object; None where it is not given."""
        return None if self.values.get(name) is None else Fields(self.values[name], self.path_of(name))

    def required_object(self, name: str) -> "Fields":
        """An object that has to be given."""
        return self.object(name) or self.refuse(name, "is missing: give an object")

    def objects(self, name: str) -> list["Fields"]:
        """A list of objects; empty where it is not given."""
        path = self.path_of(name)
        values = self._read(name, list, "a list of objects") or ()
        return [Fields(value, f"{path}[{place}]") for place, value in enumerate(values)]

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, or one text; empty where none is given."""
        value = self._read(name, (str, list), "a text or a list of texts")
        values = [value] if isinstance(value, str) else value or []
        for place, text in enumerate(values):
            if not isinstance(text, str):
                raise _wrong(f"{self.path_of(name)}[{place}]", text, "a text")
        return tuple(values)

    def content(self, name: str, read_part: Callable[["Fields"], Part], separator: str = "\n") -> str | list[Part]:
        """A text, or a list of parts, which becomes a text where all parts are texts.

        separator: between texts. Many chat templates render a content only where it is one text.
        """
        value = self.values.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        if not isinstance(value, list):
            raise _wrong(self.path_of(name), value, "a text or a list of parts")
        parts = [read_part(part) for part in self.objects(name)]
        return joined(parts, separator)


def joined(parts: Iterable[Part], separator: str = "\n") -> str | list[Part]:
    """The parts of a content as one text where all are texts, else the parts."""
    parts = list(parts)
    if all(part["type"] == "text" for part in parts):
        return separator.join(part["text"] for part in parts)
    return parts


def text_part(text: str) -> Part:
    """A text as part of a content."""
    return {"type": "text", "text": text}


def image_part(url: str) -> Part:
    """An image as part of a content. url: of http, https or data."""
    return {"type": "image_url", "image_url": {"url": url}}


def _wrong(path: str, value: Any, wanted: str) -> RequestRefused:
    given = "null" if value is None else _NAMES.get(type(value), type(value).__name__)
    return RequestRefused(f"{path}: {given} is given: give {wanted}", field_name=path)
