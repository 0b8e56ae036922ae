"""Mutants of an environment's rules: the file with one operator, number or condition changed.

Mutation analysis (DeMillo, Lipton and Sayward 1978): tests that do not notice a change do not test what was changed.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add,
}  # fmt: skip
_NO_RULES = frozenset({"__repr__", "__str__", "close", "save_state", "load_state", "render", "get_metadata", "main"})
"""Functions that decide nothing in an episode."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file with one change."""

    path: Path
    line: int
    change: str
    source: str

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line} {self.change}"


def mutants_of(path: Path) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines. Raises SyntaxError for what is no Python."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for number, (node, change) in enumerate(_sites(tree)):
        changed = copy.deepcopy(tree)
        _apply(next(one for place, (one, _) in enumerate(_sites(changed)) if place == number))
        found.append(Mutant(path, getattr(node, "lineno", 0), change, ast.unparse(changed)))
    return found


def _sites(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Each node that has a change, in a fixed order, and the change."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name in _NO_RULES:
            continue
        if isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr | ast.arguments | ast.AnnAssign | ast.Import):
            continue
        if change := _change(child):
            yield child, change
        yield from _sites(child)


def _change(node: ast.AST) -> str:
    """What changes in a node; empty where nothing does."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SWAPPED:
        return f"`{ast.unparse(node)}` with {_SWAPPED[type(node.ops[0])].__name__}"
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in _SWAPPED:
        return f"`{ast.unparse(node)}` with {_SWAPPED[type(node.op)].__name__}"
    if isinstance(node, ast.If):
        return f"`if {ast.unparse(node.test)}` the other way round"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return f"{node.value} as {not node.value}"
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return f"{node.value} as {node.value + 1}"
    return ""


def _apply(node: ast.AST) -> None:
    if isinstance(node, ast.Compare):
        node.ops = [_SWAPPED[type(node.ops[0])]()]  # type: ignore[list-item]
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        node.op = _SWAPPED[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.If):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value += 1
