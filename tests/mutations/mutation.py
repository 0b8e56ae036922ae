"""A mutation: one place of the source, found by its role in the syntax tree or by its text, and what it becomes."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

Find = Callable[[ast.AST], list[ast.AST]]
"""Finds what a mutation replaces in a function, a class or a module."""


class Mutation(NamedTuple):
    """What of a function becomes what, and the tests that must fail then."""

    function: str
    """`module:Class.function`; a module alone for one of its constants."""
    find: Find
    becomes: str
    tests: str
    """Arguments of pytest."""

    @property
    def path(self) -> Path:
        """The file of the function, relative to the source's folder."""
        return Path(*self.function.partition(":")[0].split(".")).with_suffix(".py")

    def applied(self, text: str) -> str:
        """The module's text with the mutation. Raises ValueError unless it applies in exactly one place."""
        node: ast.AST = ast.parse(text)
        for name in filter(None, self.function.partition(":")[2].split(".")):
            parts = [part for part in ast.iter_child_nodes(node) if getattr(part, "name", "") == name]
            if len(parts) != 1:
                raise ValueError(f"{self.function}: {name} is defined {len(parts)} times")
            (node,) = parts
        found = self.find(node)
        if len(found) != 1:
            raise ValueError(f"{self.function}: {len(found)} places to replace")
        return _replaced(text, found[0], self.becomes)


class TextMutation(NamedTuple):
    """What of a file that is no Python becomes what, and the tests that must fail then."""

    file: str
    """Relative to the source's folder."""
    old: str
    becomes: str
    tests: str
    """Arguments of pytest."""

    @property
    def path(self) -> Path:
        """The file, relative to the source's folder."""
        return Path(self.file)

    def applied(self, text: str) -> str:
        """The file's text with the mutation. Raises ValueError unless it applies in exactly one place."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file}: {text.count(self.old)} places to replace")
        return text.replace(self.old, self.becomes)


def code(source: str) -> Find:
    """The expression or statement that is written so, white space and line breaks aside."""
    (wanted,) = ast.parse(source).body
    kind, written = (ast.expr, wanted.value) if isinstance(wanted, ast.Expr) else (ast.stmt, wanted)
    return lambda function: [
        node for node in _parts(function) if isinstance(node, kind) and ast.unparse(node) == ast.unparse(written)
    ]


def returned() -> Find:
    """The value of a return statement."""
    return lambda function: [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]


def condition_on(name: str) -> Find:
    """The condition of an `if`, statement or expression, that mentions a name or an attribute."""
    return lambda function: [
        node.test for node in ast.walk(function) if isinstance(node, ast.If | ast.IfExp) and _mentions(node.test, name)
    ]


def argument_of(name: str, position: int = 0) -> Find:
    """A positional argument of the calls of a function or method."""
    return lambda function: [
        node.args[position]
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and _name(node.func) == name and len(node.args) > position
    ]


def keyword_of(name: str, keyword: str) -> Find:
    """A keyword argument of the calls of a function or method."""
    return lambda function: [
        given.value
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and _name(node.func) == name
        for given in node.keywords
        if given.arg == keyword
    ]


def item(key: str) -> Find:
    """The value of a key in a dictionary."""
    return lambda function: [
        value
        for node in ast.walk(function)
        if isinstance(node, ast.Dict)
        for at, value in zip(node.keys, node.values, strict=True)
        if isinstance(at, ast.Constant) and at.value == key
    ]


def storing_in(name: str) -> Find:
    """The assignment to an item of a mapping."""
    return lambda function: [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Subscript)
        and _name(node.targets[0].value) == name
    ]


def constant(name: str) -> Find:
    """The value that a name of a module or a class has."""
    return lambda module: [
        node.value
        for node in ast.iter_child_nodes(module)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and name in map(_name, node.targets if isinstance(node, ast.Assign) else [node.target])
    ]


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one, without the parts of a text with values, which have no place of their own."""
    for part in ast.iter_child_nodes(node):
        yield part
        if not isinstance(part, ast.JoinedStr):
            yield from _parts(part)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _mentions(node: ast.AST, name: str) -> bool:
    return any(_name(part) == name for part in ast.walk(node))


def _replaced(text: str, node: ast.AST, becomes: str) -> str:
    lines = text.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    encoded = text.encode()
    return (encoded[:start] + becomes.encode() + encoded[end:]).decode()
