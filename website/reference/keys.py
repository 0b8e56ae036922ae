"""The pages of keys: of the YAML of a run, and of the manifest of an environment. Both are dataclasses with a docstring
under each field."""

import dataclasses
import types
import typing
from collections.abc import Iterator
from typing import Any

import yaml

from openenv.envs.catalog import CatalogEntry
from openenv.rl.config import Config
from website.source import doc_of, found
from website.tables import code, table

_HEAD = ("Key", "Type", "Default", "Meaning")


def page_of_run() -> str:
    """Every key of `openenv train FILE`, in the order of the configuration: a section for each mapping."""
    blocks = [
        "# Keys of a run",
        "The YAML of `openenv train FILE` has these keys. All are optional. `openenv train ENV --init` writes a file "
        "with those that follow from the model, each with a comment. An unknown key is an error that names the nearest "
        "known one. [Train a model](../train.md) shows what they are for, and "
        "[Train a pretrained model](../pretrained.md) which defaults a pretrained model has instead of these.",
    ]
    for path, kind in _mappings(Config, ""):
        blocks += [f"## {code(path)}" if path else "## The top level", doc_of(found(_path(kind))).markdown()]
        blocks.append(table(_HEAD, [_row(kind, each) for each in dataclasses.fields(kind)]))
    return "\n\n".join(blocks)


def page_of_manifest() -> str:
    """The fields of a bundled environment's `openenv.yaml`."""
    rows = [_row(CatalogEntry, each) for each in dataclasses.fields(CatalogEntry)]
    return "\n\n".join(
        [
            "# Keys of openenv.yaml",
            "An environment's folder has a manifest, `openenv.yaml`. One of your own needs `name` alone, and may have "
            "`description`, `app`, `client`, `text` ([write](../write.md)) and `measured` ([certify](../certify.md)). "
            "A bundled one declares more of itself:",
            table(_HEAD, rows),
            "## What is measured",
            "`measured` has the fields of a measured task by its name:",
            table(_HEAD, [_row(_measured(), each) for each in dataclasses.fields(_measured())]),
        ]
    )


def _measured() -> Any:
    from openenv.envs.measured import MeasuredTask

    return MeasuredTask


def _mappings(kind: Any, path: str) -> Iterator[tuple[str, Any]]:
    """A mapping and those inside it, with the dotted path of each."""
    yield path, kind
    hints = typing.get_type_hints(kind)
    for each in dataclasses.fields(kind):
        inner = next(_dataclasses_in(hints[each.name]), None)
        if inner is not None:
            yield from _mappings(inner, f"{path}.{each.name}".lstrip("."))


def _dataclasses_in(hint: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(hint):
        yield hint
    for argument in typing.get_args(hint):
        yield from _dataclasses_in(argument)


def _row(kind: Any, each: dataclasses.Field[Any]) -> tuple[str, str, str, str]:
    hint = typing.get_type_hints(kind)[each.name]
    meaning = doc_of(found(_path(kind)).members[each.name]).text  # type: ignore[arg-type]
    return code(each.name), _type(hint), _default(each, hint), meaning


def _path(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__name__}"


def _type(hint: Any) -> str:
    """A type in the words of YAML."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " or ".join(code(one) for one in arguments)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(_type(one) for one in arguments if one is not type(None)))
    if dataclasses.is_dataclass(hint):
        return "a mapping"
    if origin is list:
        return f"a list: {_type(arguments[0])}"
    if origin is tuple:
        return f"a list: {', '.join(_type(one) for one in arguments if one is not ...)}"
    if origin is not None and issubclass(origin, typing.Mapping):  # type: ignore[arg-type]
        return "a mapping"
    plain = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    return plain.get(hint, "any value")


def _default(each: dataclasses.Field[Any], hint: Any) -> str:
    if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
        return "required"
    if each.default_factory is not dataclasses.MISSING:
        value = each.default_factory()
        return "" if next(_dataclasses_in(hint), None) else _text(value)
    return "none" if each.default is None else _text(each.default)


def _text(value: Any) -> str:
    plain = list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, typing.Mapping) else value
    written = yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, width=1000)
    return code(written.removesuffix("\n").removesuffix("\n..."))
