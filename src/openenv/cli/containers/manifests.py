"""Manifests of Kubernetes, as the text that kubectl reads."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml


def manifests_text(manifests: Sequence[Mapping[str, Any]]) -> str:
    """The documents of some objects, in their order."""
    text: str = yaml.dump_all(manifests, sort_keys=False, Dumper=_PlainDumper)
    return text


class _PlainDumper(yaml.SafeDumper):
    """Writes a part that occurs twice twice, and a text of several lines as such: the others are hard to read."""

    def ignore_aliases(self, data: object) -> bool:
        """Called by the library."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_PlainDumper.add_representer(str, _text)
