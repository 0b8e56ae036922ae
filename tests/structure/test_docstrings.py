"""Docstrings: where they explain several parameters, each has a line, from which a reference can be made."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "openenv"
MOST_IN_A_SENTENCE = 2


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_public = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
                node.name == "__init__" or not node.name.startswith("_")
            )
            if is_public:
                yield f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}", node


def _explained(node: ast.FunctionDef | ast.AsyncFunctionDef, docstring: str) -> int:
    """How many parameters a docstring explains, each as `name: what it is`."""
    arguments = node.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return sum(re.search(rf"(^|\s){name}: ", docstring) is not None for name in names)


def test_three_parameters_or_more_are_explained_in_a_section():
    found = [
        place
        for place, node in _functions()
        if (text := ast.get_docstring(node)) is not None
        and _explained(node, text) > MOST_IN_A_SENTENCE
        and not re.search(r"^Args:$", text, re.MULTILINE)
    ]
    assert found == []
