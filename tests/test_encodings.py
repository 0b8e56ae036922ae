"""Text files and the texts of other programs are UTF-8, whatever the encoding of the machine is."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(path for tree in ("src", "examples") for path in (ROOT / tree).rglob("*.py"))
PROGRAMS = ("run", "Popen", "check_output", "check_call", "call")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
@pytest.mark.finding("proxies, other locales and systems without what Linux alone has do no harm")
def test_every_text_is_read_and_written_with_an_encoding(path: Path) -> None:
    calls = list(_calls_without_encoding(ast.parse(path.read_bytes())))

    assert calls == [], "add encoding='utf-8'"


@pytest.mark.parametrize(
    "code",
    [
        "open('a')", "open('a', 'w')", "path.open()", "path.open('r+')", "path.read_text()", "path.write_text('x')",
        "(folder / 'a').read_text()", "os.fdopen(3)", "NamedTemporaryFile('w')", "subprocess.run(x, text=True)",
        "subprocess.Popen(x, universal_newlines=True)", "open('a', mode='a')", "io.TextIOWrapper(x)",
    ],
)  # fmt: skip
def test_a_call_that_takes_the_encoding_of_the_machine_is_found(code: str) -> None:
    assert len(list(_calls_without_encoding(ast.parse(code)))) == 1


@pytest.mark.parametrize(
    "code",
    [
        "open('a', 'rb')", "path.open('ab')", "path.read_text('utf-8')", "path.write_text('x', encoding='utf-8')",
        "tarfile.open(name)", "session.open(3)", "NamedTemporaryFile()", "subprocess.run(x)", "os.fdopen(3, 'wb')",
    ],
)  # fmt: skip
def test_a_call_that_reads_bytes_needs_none(code: str) -> None:
    assert list(_calls_without_encoding(ast.parse(code))) == []


def _calls_without_encoding(tree: ast.AST) -> Iterator[str]:
    """The calls that read or write text in the machine's encoding, each with its line."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _is_text(call) and not _has(call, "encoding"):
            yield f"line {call.lineno}: {ast.unparse(call)}"


def _is_text(call: ast.Call) -> bool:
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in PROGRAMS:
        return _has(call, "text") or _has(call, "universal_newlines")
    if name in ("read_text", "TextIOWrapper"):
        return len(call.args) < 1 + (name == "TextIOWrapper")
    if name == "write_text":
        return len(call.args) < 2
    if name == "fdopen" or (name == "open" and of is None):
        return "b" not in _mode(call, 1, "r")
    if name in ("NamedTemporaryFile", "TemporaryFile"):
        return "b" not in _mode(call, 0, "w+b")
    is_path = name == "open" and not any(word.arg in ("fileobj", "opener") for word in call.keywords)
    modes = not call.args or (isinstance(call.args[0], ast.Constant) and set(str(call.args[0].value)) <= set("rwax+bt"))
    return is_path and modes and _names_a_path(of) and "b" not in _mode(call, 0, "r")


def _names_a_path(of: ast.expr | None) -> bool:
    """Whether what is opened looks like a path; sessions, sockets and archives open too."""
    words = ast.unparse(of) if of is not None else ""
    return any(part in words.lower() for part in ("path", "file", " / ", "written", "metrics", "lock"))


def _mode(call: ast.Call, place: int, default: str) -> str:
    given = next((word.value for word in call.keywords if word.arg == "mode"), None)
    given = given or (call.args[place] if len(call.args) > place else None)
    return str(given.value) if isinstance(given, ast.Constant) else default if given is None else "b"


def _has(call: ast.Call, name: str) -> bool:
    return any(word.arg == name for word in call.keywords)
