"""The documents: short lines, plain words, links that lead somewhere, and code that compiles."""

import ast
import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/*/README.md"),
    *ROOT.glob("src/openenv/envs/*/README.md"),
]
SOURCES = sorted(ROOT.glob("src/**/*.py"))
TESTS = sorted(ROOT.glob("tests/**/*.py"))
PAGES_WITH_CODE = ["README.md", "docs/use.md", "docs/write.md", "docs/train.md", "docs/trl.md"]

MAX_LINE = 120
MAX_SENTENCE_WORDS = 40
_BANNED = re.compile(r"\b(who|whoever|nobody|somebody|told|tells?|hears?|goodbye|in vain)\b", re.IGNORECASE)
_BANNED_IN_TESTS = re.compile(
    r"(?<![a-z])(whom?|whoever|nobody|somebody|told|tells?|hears?|heard|said|says|goodbye|in[ _]vain)(?![a-z])",
    re.IGNORECASE,
)
"""Names of tests and variables count too: `_` ends a word."""
_QUOTED_IN_TESTS = {"tests/test_docs.py", "tests/text/replies.py"}
"""Files with these words in quotations: the patterns above, and replies of a model."""
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FILE_NAME = re.compile(r"(?<![\w.*/])[\w/]+\.py\b")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=_name)


@each_document
def test_no_line_of_a_document_is_longer_than_120_characters(document: Path) -> None:
    lines = enumerate(document.read_text(encoding="utf-8").splitlines(), start=1)

    assert [f"line {number}: {len(line)}" for number, line in lines if len(line) > MAX_LINE] == []


@each_document
def test_no_sentence_of_a_document_is_longer_than_40_words(document: Path) -> None:
    sentences = _sentences(document.read_text(encoding="utf-8"))

    assert [sentence for sentence in sentences if len(sentence.split()) > MAX_SENTENCE_WORDS] == []


@each_document
def test_a_document_names_the_part_that_acts(document: Path) -> None:
    assert _banned_words(document) == []


@pytest.mark.parametrize("source", SOURCES, ids=_name)
def test_code_and_its_messages_name_the_part_that_acts(source: Path) -> None:
    assert _banned_words(source) == []


def test_tests_name_the_part_that_acts() -> None:
    checked = {_name(path): path for path in TESTS if _name(path) not in _QUOTED_IN_TESTS}
    found = {name: _banned_words(path, _BANNED_IN_TESTS) for name, path in checked.items()}

    assert {name: words for name, words in found.items() if words} == {}


@each_document
def test_relative_links_lead_to_files_and_headings(document: Path) -> None:
    targets = [link for link in _LINK.findall(document.read_text(encoding="utf-8")) if "://" not in link]

    assert [target for target in targets if not _exists(document, target)] == []


def test_the_architecture_names_only_files_that_exist() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    known = {_name(path) for path in ROOT.glob("src/**/*.py")}

    assert [
        name for name in _FILE_NAME.findall(text) if not any(f"/{path}".endswith(f"/{name}") for path in known)
    ] == []


def _blocks(languages: str) -> list[pytest.param]:
    """The code of the pages in one of these languages. The id is the page and the number of the block."""
    found = []
    for page in PAGES_WITH_CODE:
        blocks = _FENCE.findall((ROOT / page).read_text(encoding="utf-8"))
        found += [
            pytest.param(code, id=f"{page}-{number}") for number, (kind, code) in enumerate(blocks) if kind == languages
        ]
    return found


@pytest.mark.parametrize("code", _blocks("python"))
def test_python_of_the_pages_compiles_and_finds_what_it_imports(code: str) -> None:
    compile(code, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "openenv":
            module = importlib.import_module(str(node.module))
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


@pytest.mark.parametrize("code", _blocks("bash"))
def test_shell_commands_of_the_pages_parse(code: str) -> None:
    parsed = subprocess.run(["bash", "-n"], input=code, text=True, capture_output=True, check=False)

    assert parsed.stderr == ""


@pytest.mark.parametrize("code", _blocks("yaml"))
def test_yaml_of_the_pages_parses(code: str) -> None:
    assert isinstance(yaml.safe_load(code), dict)


def _banned_words(path: Path, banned: re.Pattern[str] = _BANNED) -> list[str]:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    return [f"line {number}: {found[0]}" for number, line in lines for found in banned.finditer(line)]


def _sentences(text: str) -> Iterator[str]:
    """The sentences of paragraphs and list items: no code, no tables, no headings."""
    prose = _FENCE.sub("", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.)\s?)", prose):
        if not paragraph.lstrip().startswith(("|", "#")):
            words = re.sub(r"`[^`]*`", "code", " ".join(paragraph.split()))
            yield from re.split(r"(?<=[.!?:])\s+", words)


def _exists(document: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = document.parent / path if path else document
    return found.exists() and (not anchor or anchor in _anchors(found))


def _anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
