"""Prints what nothing reaches: `python -m tests.structure.unreached`.

A function, class, method or constant of `src` is reached where its name is a word of a command, document, example,
template, benchmark or published module, or of other code that is reached. Tests reach nothing. Names that a library
calls are reached, too: those of Python's own protocols, and those in `CALLED_BY_LIBRARIES`.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
_PLAIN = ("property", "staticmethod", "classmethod", "cached_property", "contextmanager", "abstractmethod")
_WORD = re.compile(r"[A-Za-z_]\w*")
_OUTSIDE = ("README.md", "CONTRIBUTING.md", "pyproject.toml", "Makefile", "docs/**/*.md", "examples/**/*.*")
_OUTSIDE += ("benchmarks/**/*.py", "tests/interop/recorded/names.json", "src/**/*.template", "src/**/*.yaml")
_OUTSIDE += ("src/**/*.js", "src/**/*.html", "src/**/*.md", "src/openenv/grpo_utils.py")

CALLED_BY_LIBRARIES = re.compile(
    r"__\w+__|visit_\w+|model_config|"
    # asyncio's protocols, threads, selectors, http.server, argparse, json, yaml, logging, pathlib
    r"connection_made|connection_lost|data_received|eof_received|pause_writing|resume_writing|run|do_GET|do_POST|"
    r"error|default|ignore_aliases|format|emit|filter|handle_\w+|"
    # uvicorn, Starlette, pydantic, typer, Gymnasium, PettingZoo, transformers, torch, TRL, verifiers, prometheus
    r"shutdown|on_\w+|main_loop|startup|serialize_\w+|metadata|render_mode|spec|forward|backward|collect|convert|"
    r"construct_\w+|flatten_mapping|redirect_request|formatMessage|send_\d+_response|_missing_|get_code|get_source|"
    r"evaluate_response|"  # the tutorial's
    r"\w+_schema|close_extras|setup_state|env_response|setup_client|(to|from|get|raise_from)_native_\w+"
)


@dataclass(frozen=True)
class Definition:
    """A definition and the lines that it has, from 1; of a class without its methods."""

    path: Path
    name: str
    first: int
    last: int
    owner: "Definition | None" = None


def unreached() -> list[Definition]:
    """The definitions that nothing reaches."""
    definitions = [found for path in sorted(SOURCE.rglob("*.py")) for found in _definitions(path)]
    outside = Counter[str]()
    for pattern in _OUTSIDE:
        for path in ROOT.glob(pattern):
            if path.is_file():
                outside.update(set(_WORD.findall(path.read_text(encoding="utf-8", errors="ignore"))))
    dead: set[Definition] = set()
    while True:
        words = outside + Counter(_words_of_the_living(dead))
        more = {found for found in definitions if found not in dead and not _is_reached(found, words, dead)}
        if not more:
            return sorted(dead, key=lambda found: (found.path, found.first))
        dead |= more


def _is_reached(found: Definition, words: Counter[str], dead: set[Definition]) -> bool:
    if found.owner in dead:
        return False
    if found.name.startswith("_") and words[found.name[1:]] and 'f"_{' in "".join(_lines(found.path)):
        return True  # getattr(self, f"_{kind}")
    return words[found.name] > _own_uses(found) or CALLED_BY_LIBRARIES.fullmatch(found.name) is not None


def _own_uses(found: Definition) -> int:
    lines = _lines(found.path)[found.first - 1 : found.last]
    return Counter(_WORD.findall(_code("\n".join(lines))))[found.name]


_READ: dict[Path, list[str]] = {}


def _lines(path: Path) -> list[str]:
    if path not in _READ:
        _READ[path] = path.read_text(encoding="utf-8").splitlines()
    return _READ[path]


def _words_of_the_living(dead: set[Definition]) -> Iterator[str]:
    for path in SOURCE.rglob("*.py"):
        hidden = {line for found in dead if found.path == path for line in range(found.first, found.last + 1)}
        kept = [text for number, text in enumerate(_lines(path), start=1) if number not in hidden]
        yield from _WORD.findall(_code("\n".join(kept)))


def _code(text: str) -> str:
    """The text without what does not use a name: imports, `__all__`, comments."""
    text = re.sub(r"^\s*from [\w.]+ import (\([^)]*\)|.*)$|^\s*import .*$", "", text, flags=re.M)
    text = re.sub(r"^__all__ = \[[^\]]*\]", "", text, flags=re.M)
    return re.sub(r"#.*", "", text)


def _definitions(path: Path) -> Iterator[Definition]:
    tree = ast.parse("\n".join(_lines(path)))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not _is_registered(node):
                yield Definition(path, node.name, node.lineno, node.end_lineno or node.lineno)
        elif isinstance(node, ast.ClassDef):
            owner = Definition(path, node.name, node.lineno, node.end_lineno or node.lineno)
            yield owner
            for part in node.body:
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_registered(part):
                    yield Definition(path, part.name, part.lineno, part.end_lineno or part.lineno, owner)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield Definition(path, target.id, node.lineno, node.end_lineno or node.lineno)


def _is_registered(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a decorator hands the function on, as a route or a validator."""
    return any(ast.unparse(decorator) not in _PLAIN for decorator in node.decorator_list)


if __name__ == "__main__":
    found = unreached()
    for each in found:
        print(f"{each.path.relative_to(ROOT)}:{each.first}: {each.name} ({each.last - each.first + 1} lines)")
    raise SystemExit(f"nothing reaches these {len(found)} definitions: delete them" if found else 0)
