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
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from openenv.core.formats.json_text import json_text

T = TypeVar("T")

_METADATA = "openenv option"
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
        metavar: what `--help` shows for the value.
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
        default = environ.get(self.variable) or _text(self.default)
        shown = f"default: {self.unset}" if default is None else f"default {default}"
        may_stand_alone = {"nargs": "?", "const": "true"} if self.kind is bool else {}
        parser.add_argument(
            f"--{self.name.replace('_', '-')}",
            default=default,
            metavar=self.metavar or "|".join(("true", "false") if self.kind is bool else _choices(self.kind)) or None,
            help=f"{self.sentence} ({shown}).".replace("%", "%%"),
            **may_stand_alone,  # type: ignore[arg-type]
        )

    def value(self, text: str) -> Any:
        """What the text means. Raises ValueError, naming the field, for what its annotation does not allow."""
        return _read(self.field, self.kind, text)


def options_of(settings_class: type, environment: str) -> list[SettingOption]:
    """The options of a settings class. environment: its name, such as `maze_env`, with which the variables begin."""
    kinds, prefix = get_type_hints(settings_class), environment.removesuffix("_env")
    found = []
    for field in dataclasses.fields(settings_class):
        if _METADATA in field.metadata:
            declared = dict(field.metadata[_METADATA])
            name = (declared.pop("name") or field.name).replace("-", "_")
            variable = declared.pop("variable") or f"{prefix}_{name}".upper()
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


def json_object(name: str, text: str, example: str = '{"size": 3}') -> dict[str, Any]:
    """The JSON object in a text. Raises ValueError with its name and an example."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}={text!r} is not JSON: {error}. Write '{example}'.") from None
    if not isinstance(found, dict):
        raise ValueError(f"{name}={text!r}: expected a JSON object, such as '{example}'.")
    return found


def _read(name: str, kind: Any, text: str) -> Any:
    if kind is bool:
        return _one_of(name, text.lower(), _TRUTHS)
    kinds, choices = _kinds(kind), _choices(kind)
    origins: list[Any] = [get_origin(one) for one in kinds]
    several = next((one for one in origins if one in (list, tuple)), None)
    if several is not None and (str not in kinds or "," in text):
        return several(part.strip() for part in text.split(",") if part.strip())
    if dict in origins:
        return json_object(name, text)
    if choices:
        return _one_of(name, text, dict(zip(choices, choices, strict=True)))
    for number, expected in ((int, "a whole number"), (float, "a number")):
        if number in kinds:
            try:
                return number(text)
            except ValueError:
                raise ValueError(f"{name}={text!r}: expected {expected}.") from None
    return text


def _one_of(name: str, text: str, values: Mapping[str, Any]) -> Any:
    if text not in values:
        *others, last = values
        raise ValueError(f"{name}={text!r}: expected {', '.join(others)} or {last}.")
    return values[text]


def _kinds(kind: Any) -> tuple[Any, ...]:
    """The types that an annotation allows, without None."""
    is_union = get_origin(kind) in (Union, UnionType)
    return tuple(one for one in get_args(kind) if one is not NoneType) if is_union else (kind,)


def _choices(kind: Any) -> tuple[str, ...]:
    """The texts of a Literal."""
    literal = next((one for one in _kinds(kind) if get_origin(one) is Literal), None)
    return tuple(map(str, get_args(literal)))


def _text(value: Any) -> str | None:
    """The text that is read as this value; None for None and for what is empty, as an empty text means the default."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or value == () or value == "":
        return None
    return json_text(value) if isinstance(value, dict | list) else str(value).removesuffix(".0")
