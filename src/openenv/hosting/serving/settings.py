"""Settings of an environment's server: fields of a dataclass that are command-line options and environment variables.

    @dataclass(frozen=True, kw_only=True)
    class MazeSettings:
        size: int = option(4, "Rows of a maze that a reset gives no size")

`--size 6` sets it, or `MAZE_SIZE=6` for an environment called `maze_env`, and it is `size` of the constructor.
"""

import argparse
import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from openenv.formats.json_text import json_text

T = TypeVar("T")

_METADATA = "openenv option"
_PLAIN = (bool, int, float, str, Path)
_TRUTH_WORDS = ("true", "false")
_TRUTHS = {"1": True, "0": False, "true": True, "false": False}


def option(
    default: T,
    sentence: str,
    *,
    name: str | None = None,
    variable: str | None = None,
    unset: str = "none",
    metavar: str | None = None,
) -> T:
    """A field of a settings class that is an option. Its annotation decides how a text is read.

    Args:
        default: its value where neither the option nor the variable is given, or the text is empty.
        sentence: what it does, for `--help`, without a full stop.
        name: of the option, without dashes; by default the field's.
        variable: the environment variable; by default the environment's name and the option's, in capitals.
        unset: what `--help` shows for a default of None, or an empty one.
        metavar: what `--help` shows for the value; of a JSON object, an example.
    """
    metadata = {
        _METADATA: {"sentence": sentence, "name": name, "variable": variable, "unset": unset, "metavar": metavar}
    }
    if isinstance(default, dict | list):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)  # type: ignore[return-value]
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class SettingOption:
    """One field of a settings class, as an option and an environment variable."""

    field: str
    kind: Any
    """Its annotation."""
    default: Any
    sentence: str
    name: str
    """Of the option, with underscores: the attribute of parsed arguments."""
    variable: str
    unset: str
    metavar: str | None

    def add_to(self, parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
        """Add the option. Its default is the variable's text, if there is one."""
        text = environ.get(self.variable) or _text(self.default)
        shown = f"default: {self.unset}" if text is None else f"default {text}"
        is_truth = bool in _kinds(self.kind)
        may_stand_alone = {"nargs": "?", "const": "true"} if is_truth else {}
        parser.add_argument(
            f"--{self.name.replace('_', '-')}",
            default=environ.get(self.variable),
            metavar=self.metavar or "|".join(_TRUTH_WORDS if is_truth else _choices(self.kind)) or None,
            help=f"{self.sentence} ({shown}).".replace("%", "%%"),
            **may_stand_alone,  # type: ignore[arg-type]
        )

    def value(self, text: str) -> Any:
        """What the text means. Raises ValueError, naming the field, for what its annotation does not allow."""
        kinds = _kinds(self.kind)
        if any(dict in (one, get_origin(one)) for one in kinds):
            return json_object(self.field, text, self.metavar or '{"key": "value"}')
        return _read(self.field, self.kind, text)


def options_of(settings_class: type, environment: str) -> list[SettingOption]:
    """The options of a settings class. environment: its name, such as `maze_env`, with which the variables begin.

    Raises TypeError for an annotation that no text is read as.
    """
    kinds, prefix = get_type_hints(settings_class), environment.removesuffix("_env")
    found = []
    for field in dataclasses.fields(settings_class):
        if _METADATA in field.metadata:
            declared = dict(field.metadata[_METADATA])
            name = (declared.pop("name") or field.name).replace("-", "_")
            variable = declared.pop("variable") or f"{prefix}_{name}".upper()
            _refuse_unreadable(field.name, kinds[field.name])
            default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            found.append(
                SettingOption(
                    field=field.name, kind=kinds[field.name], default=default, name=name, variable=variable, **declared
                )
            )
    return found


def keywords_of(settings: Any) -> dict[str, Any]:
    """The fields of a settings object by name, not copied."""
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def json_object(name: str, text: str, example: str) -> dict[str, Any]:
    """The JSON object in a text. Raises ValueError with its name and an example."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}={text!r} is not JSON: {error}. Write '{example}'.") from None
    if not isinstance(found, dict):
        raise ValueError(f"{name}={text!r}: expected a JSON object, such as '{example}'.")
    return found


def _refuse_unreadable(name: str, kind: Any) -> None:
    for one in _kinds(kind):
        if get_origin(one) in (list, tuple):
            for element in get_args(one):
                if element is not ...:
                    _refuse_unreadable(name, element)
        elif one not in _PLAIN and one is not dict and get_origin(one) not in (dict, Literal):
            raise TypeError(
                f"option {name}: no text is read as {one!r}. Annotate it as bool, int, float, str, Path, a Literal, a "
                "dict, or a list or tuple of these"
            )


def _read(name: str, kind: Any, text: str) -> Any:
    kinds = _kinds(kind)
    several = next((one for one in kinds if get_origin(one) in (list, tuple)), None)
    if several is not None and (str not in kinds or "," in text):
        element = get_args(several)[0]
        parts = (part.strip() for part in text.split(","))
        return get_origin(several)(_read(name, element, part) for part in parts if part)
    if choices := _choices(kind):
        return _one_of(name, text, choices)
    if bool in kinds:
        return _one_of(name, text.lower(), _TRUTHS)
    for plain, expected in ((int, "a whole number"), (float, "a number")):
        if plain in kinds and not (plain is int and float in kinds and not text.lstrip("+-").isdigit()):
            try:
                return plain(text)
            except ValueError:
                raise ValueError(f"{name}={text!r}: expected {expected}.") from None
    return Path(text) if Path in kinds else text


def _one_of(name: str, text: str, values: Mapping[str, Any]) -> Any:
    if text not in values:
        *others, last = values
        raise ValueError(f"{name}={text!r}: expected {', '.join(others)} or {last}.")
    return values[text]


def _kinds(kind: Any) -> tuple[Any, ...]:
    """The types that an annotation allows, without None."""
    is_union = get_origin(kind) in (Union, UnionType)
    return tuple(one for one in get_args(kind) if one is not NoneType) if is_union else (kind,)


def _choices(kind: Any) -> dict[str, Any]:
    """The values of a Literal by their texts."""
    literal = next((one for one in _kinds(kind) if get_origin(one) is Literal), None)
    return {str(value): value for value in get_args(literal)}


def _text(value: Any) -> str | None:
    """A value as `--help` shows it; None for None and for what is empty."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or value in ((), [], ""):
        return None
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return json_text(value) if isinstance(value, dict) else f"{value:g}" if isinstance(value, float) else str(value)
