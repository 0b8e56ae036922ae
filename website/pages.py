"""The pages of the site as Markdown: what is written by hand, with the places of its links, and what is generated."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from website.envs import page as environments
from website.links import Links
from website.reference import api, commands, errors, keys

ROOT = Path(__file__).parents[1]
DOCS = "docs"
_OUTSIDE_DOCS = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
_FOLDERS = {
    "docs/decisions": "decisions/index.md",
    "src/openenv/envs": "environments/index.md",
    "docs": "index.md",
}
"""Folders that a link may name, and the page that lists what is in them."""
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_CODE_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A page of the site. Its links lead to pages and files of the site, or to other sites."""

    path: str
    """Its place below the site, with the ending .md."""
    text: str

    @property
    def title(self) -> str:
        """Its first heading. Raises ValueError for a page without one."""
        found = _TITLE.search(self.text)
        if found is None:
            raise ValueError(f"{self.path} has no heading: begin it with `# Title`")
        return found[1].replace("`", "")

    @property
    def summary(self) -> str:
        """Its first sentence below the heading, on one line; empty where it begins with a list, a table or code."""
        paragraphs = _CODE_BLOCK.sub("", _TITLE.sub("", self.text, count=1)).strip().split("\n\n")
        first = " ".join(paragraphs[0].split())
        is_prose = first and not first.startswith(("#", "|", "-", "!", "<"))
        return re.split(r"(?<=[.:])\s", first, maxsplit=1)[0].rstrip(":") if is_prose else ""


def all_pages() -> dict[str, Page]:
    """Every page by its path, those of a folder in their order. Raises BrokenLink where a link leads nowhere."""
    written = _written()
    links = Links(ROOT, {**written, **environments.readmes(), **_FOLDERS})
    pages = [Page(path, links.resolved(_text(source), source, path)) for source, path in written.items()]
    pages += [Page(path, text) for path, text in environments.pages(links).items()]
    pages += [Page(path, text) for path, text in api.pages().items()]
    pages += [
        Page("reference/errors.md", errors.page()),
        Page("reference/run.md", keys.page_of_run()),
        Page("reference/manifest.md", keys.page_of_manifest()),
        Page("reference/commands.md", commands.page()),
    ]
    pages.append(Page("decisions/index.md", _decisions(pages)))
    return {page.path: page for page in pages}


def _written() -> Mapping[str, str]:
    """The files that are written by hand, and the paths of their pages."""
    documents = {str(path.relative_to(ROOT)): path for path in sorted((ROOT / DOCS).rglob("*.md"))}
    notebooks = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
    return {
        **{source: str(path.relative_to(ROOT / DOCS)) for source, path in documents.items()},
        **_OUTSIDE_DOCS,
        **{str(path.relative_to(ROOT)): f"tutorials/{path.stem}.md" for path in notebooks},
    }


def _text(source: str) -> str:
    path = ROOT / source
    return _notebook(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")


def _notebook(path: Path) -> str:
    """The cells of a notebook without their outputs, and where the notebook is."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    title, *others = (_cell(cell) for cell in cells)
    note = (
        f"This page is the notebook `{'/'.join(path.parts[-3:])}`, which a test runs from its first cell to its last."
    )
    return "\n\n".join([title, note, *others]) + "\n"


def _cell(cell: dict[str, object]) -> str:
    source = "".join(cell["source"])  # type: ignore[call-overload]
    return f"```python\n{source}\n```" if cell["cell_type"] == "code" else source


def _decisions(pages: list[Page]) -> str:
    """The list of the decisions, in their order."""
    found = sorted((page for page in pages if page.path.startswith("decisions/")), key=lambda page: page.path)
    lines = "".join(f"- [{_number(page.path)}]({Path(page.path).name}) {page.title}\n" for page in found)
    return (
        "# Decisions\n\nWhat was decided where another way was possible, one page each: what was compared, what it "
        f"costs, and when to look again.\n\n{lines}"
    )


def _number(path: str) -> str:
    return Path(path).stem.partition("-")[0]


def assets() -> Iterator[tuple[str, Path]]:
    """The files of the site that are no pages: their paths below the site, and where they are."""
    for path in sorted((ROOT / DOCS / "images").iterdir()):
        yield f"images/{path.name}", path
    for path in sorted((ROOT / "website/assets").iterdir()):
        yield f"assets/{path.name}", path
