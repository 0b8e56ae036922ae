"""The documents: links that lead somewhere, and code that compiles."""

import ast
import importlib
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from openenv.rl.config_file import config_from_mapping

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/*/README.md"),
    *ROOT.glob("src/openenv/envs/*/README.md"),
]
PAGES_WITH_CODE = [
    "README.md",
    *(f"docs/{name}.md" for name in ("start", "use", "write", "train", "scale", "trl", "migration", "when-it-fails")),
]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FILE_NAME = re.compile(r"(?<![\w.*/])[\w/]+\.py\b")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=_name)


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
        blocks = FENCE.findall((ROOT / page).read_text(encoding="utf-8"))
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


@pytest.mark.parametrize(
    "code", [found for kind, found in FENCE.findall((ROOT / "docs/scale.md").read_text()) if kind == "yaml"]
)
def test_yaml_of_the_page_about_scale_describes_runs(code: str) -> None:
    assert config_from_mapping(yaml.safe_load(code)).name


def _exists(document: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = document.parent / path if path else document
    return found.exists() and (not anchor or anchor in _anchors(found))


def _anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
