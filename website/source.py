"""The package as its source declares it: names, signatures, docstrings. Nothing of it is imported."""

import functools
import inspect
import logging
import re
from dataclasses import dataclass, field
from pathlib import Path

import griffe

from website.tables import code, table

SRC = Path(__file__).parents[1] / "src"
_SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Example):$", re.MULTILINE)
_ENTRY = re.compile(r"^(?P<name>\*{0,2}[\w. ]+): +(?P<text>.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_MAX_LINE = 88


@functools.cache
def package() -> griffe.Object:
    """The package `openenv`."""
    logging.getLogger("griffe").setLevel(logging.ERROR)  # it warns of types that no docstring repeats
    loaded = griffe.load("openenv", search_paths=[str(SRC)], resolve_aliases=True, resolve_external=False)
    assert isinstance(loaded, griffe.Object)
    return loaded


def found(path: str) -> griffe.Object:
    """What a dotted path names, where it is defined. Raises KeyError if it names nothing."""
    member = package() if path == "openenv" else package()[path.removeprefix("openenv.")]
    return member.final_target if member.is_alias else member


@dataclass(frozen=True)
class Doc:
    """A docstring in its parts."""

    text: str
    sections: dict[str, str] = field(default_factory=dict)
    """The text of each section by its name, such as Args."""

    @property
    def first(self) -> str:
        """Its first paragraph."""
        return self.text.partition("\n\n")[0]

    def markdown(self) -> str:
        """All of it: sections are tables of what they name, or paragraphs."""
        parts = [self.text]
        for name, text in self.sections.items():
            if name == "Example":
                parts.append(f"```python\n{text}\n```")
                continue
            rows = [(code(one["name"].strip()), one["text"]) for one in _ENTRY.finditer(text)]
            shown = {"Args": "Argument", "Attributes": "Attribute", "Raises": "Raises"}.get(name)
            parts.append(table([shown, "Meaning"], rows) if shown and rows else f"**{name}:** {' '.join(text.split())}")
        return "\n\n".join(part.strip() for part in parts if part.strip())


def doc_of(found: griffe.Object) -> Doc:
    """The docstring of an object; an empty one where it has none."""
    text = inspect.cleandoc(found.docstring.value) if found.docstring else ""
    before, *rest = _SECTION.split(text)
    return Doc(
        before.strip(),
        {name: inspect.cleandoc(body.strip("\n")) for name, body in zip(rest[::2], rest[1::2], strict=True)},
    )


def signature(function: griffe.Function, name: str) -> str:
    """How a function is called, in one line where it fits, else with a parameter in each."""
    given = [each for each in function.parameters if each.name not in ("self", "cls")]
    parts = [_parameter(each) for each in given]
    kinds = [each.kind for each in given]
    keyword_only = griffe.ParameterKind.keyword_only
    if keyword_only in kinds and griffe.ParameterKind.var_positional not in kinds:
        parts.insert(kinds.index(keyword_only), "*")
    has_result = function.annotation is not None and function.name != "__init__"
    result = f" -> {function.annotation}" if has_result else ""
    start = f"{'async ' if 'async' in function.labels else ''}{name}"
    line = f"{start}({', '.join(parts)}){result}"
    return (
        line if len(line) <= _MAX_LINE else f"{start}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"
    )


def _parameter(each: griffe.Parameter) -> str:
    stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(each.kind, "")
    kind = f": {each.annotation}" if each.annotation is not None else ""
    if each.default is None or stars:
        return f"{stars}{each.name}{kind}"
    return f"{each.name}{kind} = {each.default}" if kind else f"{each.name}={each.default}"
