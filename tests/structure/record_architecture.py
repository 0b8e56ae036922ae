"""Writes the tree and the layers of docs/architecture.md anew: `python -m tests.structure.record_architecture`.

A package is described by the first sentence of its docstring. The layers are those that `lint-imports` checks.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/architecture.md"
PACKAGE = ROOT / "src/openenv"
_TREE = re.compile(r"```text\nsrc/openenv/\n.*?```", re.S)
_LAYERS = re.compile(r"```text\ncli -> .*?```", re.S)
_WIDTH = 24
_LONGEST = 96


def recorded() -> str:
    """The page with its tree and layers as the code has them."""
    tree = "\n".join(["src/openenv/", *_lines(PACKAGE, 1)])
    text = _TREE.sub(lambda _: f"```text\n{tree}\n```", PAGE.read_text(encoding="utf-8"))
    return _LAYERS.sub(lambda _: f"```text\n{_layers()}\n```", text)


def _lines(folder: Path, depth: int) -> Iterator[str]:
    """A line for each package below a folder; of an environment, its package alone."""
    for package in sorted(path.parent for path in folder.glob("*/__init__.py")):
        name = "  " * depth + f"{package.name}/"
        yield f"{name:<{_WIDTH}}{_first_sentence(package)}"
        if folder.name != "envs":
            yield from _lines(package, depth + 1)


def _first_sentence(package: Path) -> str:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    sentence = re.split(r"\.\s|\.$", " ".join(docstring.split("\n\n")[0].split()), maxsplit=1)[0]
    while len(sentence) > _LONGEST:  # a list at its end is the first to go
        sentence = sentence[: max(sentence.rfind(","), sentence.rfind(":"), sentence.rfind(" in "))]
    return sentence


def _layers() -> str:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["name"] == "layers")
    packages = [layer for layer in layers if (PACKAGE / layer).is_dir()]
    half = len(packages) // 2
    return " -> ".join(packages[:half]) + "\n -> " + " -> ".join(packages[half:])


if __name__ == "__main__":
    PAGE.write_text(recorded(), encoding="utf-8")
