"""Strict YAML: a key that is written twice is an error, and not a value that is dropped in silence."""

import math
from collections.abc import Hashable
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from openenv.formats.text_file import read_utf8

_SPECIAL_KEYS = ("tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")
"""The tags of `<<` and `=`, which no constructor takes."""
_MOST_VALUES = 1_000_000
"""Values of a document, with those that its aliases repeat: a few lines can stand for any number."""


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; None for an empty one. Raises ValueError that names the file and the lines."""
    return parse_yaml(read_utf8(path), str(path))


def parse_yaml(text: str, name: str, *, first_line: int = 1) -> Any:
    """The content of a YAML document. name, first_line: where it is, for the ValueError of one that is not valid."""
    try:
        return _StrictLoader(text).get_single_data()
    except _WrittenTwice as error:
        lines = " and ".join(str(first_line + line) for line in error.lines)
        raise ValueError(
            f"{name}: the key {error.key!r} is written twice, in lines {lines}. Keep one of them."
        ) from None
    except yaml.YAMLError as error:
        raise ValueError(f"{name} is not YAML: {error}") from error
    except RecursionError:
        raise ValueError(f"{name} is not YAML that can be read: it is nested too deep") from None


class _WrittenTwice(Exception):
    def __init__(self, key: Any, lines: tuple[int, int]) -> None:
        """lines: counted from 0."""
        super().__init__(key, lines)
        self.key, self.lines = key, lines


class _StrictLoader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._checked: set[yaml.Node] = set()
        """The mappings whose own keys differ. They may have merged others since, whose keys they replace."""

    def construct_document(self, node: yaml.Node) -> Any:
        """The content of a document. One that contains itself has no end."""
        if _num_values(node, {}) > _MOST_VALUES:
            raise ConstructorError(None, None, f"its aliases repeat more than {_MOST_VALUES} values", node.start_mark)
        return super().construct_document(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node. A scalar that its tag does not allow, such as the date 2024-13-45, names its line."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError) as error:
            raise ConstructorError(None, None, f"a value cannot be read ({error})", node.start_mark) from error

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Refuse a key that the mapping itself has twice, and then take the keys that it merges (`<<`)."""
        seen: dict[Any, yaml.Node] = {}
        for key_node, _ in () if node in self._checked else node.value:
            key = key_node.value
            if key_node.tag not in _SPECIAL_KEYS:
                key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # the constructor refuses it
            first = seen.setdefault(key, key_node)
            if first is not key_node:
                raise _WrittenTwice(key, (first.start_mark.line, key_node.start_mark.line))
        self._checked.add(node)
        super().flatten_mapping(node)


def _num_values(node: yaml.Node, known: dict[yaml.Node, float]) -> float:
    """How many values a node stands for, each alias counted with all that it repeats; infinite for one in itself."""
    if node not in known:
        known[node] = math.inf
        parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        is_scalar = isinstance(node, yaml.ScalarNode)
        known[node] = 1 if is_scalar else 1 + sum(_num_values(part, known) for part in parts)
    return known[node]
