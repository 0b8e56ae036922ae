"""Writes the configuration of a run as YAML, each key with what its docstring says first."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, cast

import yaml

from openenv.rl.config import Config, learning, models, playing, run
from openenv.rl.model_defaults import PRETRAINED, TINY_WITHOUT_FILE, WITH_LORA, merged

_WIDTH = 120
_SHOWN: Mapping[str, Any] = {
    **merged(merged(TINY_WITHOUT_FILE, PRETRAINED), WITH_LORA),
    "name": "",
    "seed": 0,
}
"""Keys that a file shows also where they have the default: those that follow from the model."""


def config_yaml(config: Config) -> str:
    """The YAML of a configuration: the keys that differ from the defaults, and those that follow from the model.

    `config_file.load_config` reads the same configuration from it.
    """
    docs = _docstrings()
    return "\n".join(_lines(config, Config(), _SHOWN, docs, 0)) + "\n"


def _lines(
    config: Any, default: Any, shown: Mapping[str, Any], docs: Mapping[str, Mapping[str, str]], depth: int
) -> Iterator[str]:
    """The lines of a part of the configuration. shown: its keys that are written in any case."""
    for item in dataclasses.fields(config):
        value, usual = getattr(config, item.name), getattr(default, item.name)
        if item.name == "env" and len(value) == 1:
            value, usual = value[0], None
        if value == usual and item.name not in shown:
            continue
        yield from _comment(docs[type(config).__name__].get(item.name, ""), depth)
        if dataclasses.is_dataclass(value):
            yield f"{'  ' * depth}{item.name}:"
            below = usual if type(usual) is type(value) else cast(Any, type(value))()
            yield from _lines(value, below, _shown_of(value, usual, shown.get(item.name)), docs, depth + 1)
        else:
            yield f"{'  ' * depth}{item.name}: {_flow(value)}"


def _flow(value: Any) -> str:
    """A value on one line."""
    text = yaml.safe_dump(_plain(value), default_flow_style=True, sort_keys=False, width=100_000)
    return text.strip().removesuffix("...").rstrip()


def _shown_of(value: Any, usual: Any, shown: Any) -> Mapping[str, Any]:
    """The keys of a part that are written in any case: one at least, where the part itself is not the default."""
    first = {} if type(usual) is type(value) else {dataclasses.fields(value)[0].name: None}
    return {**(shown or {}), **first}


def _comment(text: str, depth: int) -> Iterator[str]:
    """The first sentence of a docstring as lines of a comment."""
    first = text.partition(". ")[0].rstrip(".")
    indent = "  " * depth + "# "
    yield from textwrap.wrap(first, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _plain(value: Any) -> Any:
    """Dataclasses and tuples in a value as YAML has them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _docstrings() -> dict[str, dict[str, str]]:
    """The docstrings of the fields of each class of the configuration."""
    found: dict[str, dict[str, str]] = {}
    for module in (learning, models, playing, run):
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = dict(_of_fields(node))
    return found


def _of_fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for item, after in zip(node.body, node.body[1:], strict=False):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and is_text:
            yield item.target.id, inspect.cleandoc(str(after.value.value))  # type: ignore[attr-defined]
