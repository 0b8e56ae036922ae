"""The order of the pages: the navigation of mkdocs.yml, with `folder/*` replaced by the pages of the folder, and the
same as `llms.txt`, the list for programs that read the site."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from website.pages import Page

SETTINGS = Path(__file__).parent / "mkdocs.yml"
_ALL = "/*"
_SUMMARY = "Environments for training language models, their servers and clients, and a trainer: a Python package."
_LAST = "Changes"
"""The part that a program with little room may leave out."""


class _Tag(yaml.YAMLObject):
    """A tag of YAML that Python resolves, kept as it is written."""


class _Loader(yaml.SafeLoader):
    """Reads the settings without what their tags name."""


class _Dumper(yaml.SafeDumper):
    """Writes them again."""


_Loader.add_multi_constructor("", lambda loader, tag, node: node)
_Dumper.add_multi_representer(yaml.Node, lambda dumper, node: node)


def navigation() -> list[Any]:
    """The navigation as mkdocs.yml has it."""
    nav: list[Any] = _settings()["nav"]
    return nav


def expanded(nav: list[Any], paths: list[str]) -> list[Any]:
    """The navigation with the pages of each `folder/*` that it does not name otherwise."""
    named = set(named_pages(nav))
    return list(_expanded(nav, [path for path in paths if path not in named]))


def named_pages(nav: Any) -> Iterator[str]:
    """The pages that a navigation names."""
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, Mapping) else nav if isinstance(nav, list) else ():
        yield from named_pages(part)


def _expanded(nav: list[Any], left: list[str]) -> Iterator[Any]:
    for entry in nav:
        if isinstance(entry, str) and entry.endswith(_ALL):
            yield from (path for path in left if str(PurePosixPath(path).parent) == entry.removesuffix(_ALL))
        elif isinstance(entry, Mapping):
            yield {
                name: list(_expanded(below, left)) if isinstance(below, list) else below
                for name, below in entry.items()
            }
        else:
            yield entry


def write_settings(folder: Path, pages: "Mapping[str, Page]", out: Path) -> Path:
    """Write the settings with which MkDocs renders `folder/docs` to `out`; return their file."""
    settings = _settings()
    settings["nav"] = expanded(settings["nav"], list(pages))
    settings |= {"docs_dir": str(folder / "docs"), "site_dir": str(out)}
    settings["theme"]["custom_dir"] = str(SETTINGS.parent / "theme")
    file = folder / "mkdocs.yml"
    file.write_text(yaml.dump(settings, Dumper=_Dumper, sort_keys=False), encoding="utf-8")
    return file


def _settings() -> dict[str, Any]:
    settings: dict[str, Any] = yaml.load(SETTINGS.read_text(encoding="utf-8"), Loader=_Loader)
    return settings


def llms_txt(pages: "Mapping[str, Page]") -> str:
    """The text of llms.txt: a title, a summary, and lists of links with a sentence about each page."""
    nav = expanded(navigation(), list(pages))
    parts = [f"# openenv\n\n> {_SUMMARY}\n", *_parts(nav, pages)]
    return "\n".join(parts)


def _parts(nav: list[Any], pages: "Mapping[str, Page]") -> Iterator[str]:
    for entry in nav:
        ((name, below),) = entry.items()
        lines = [_line(pages[path]) for path in named_pages(below)]
        yield "\n".join([f"## {'Optional' if name == _LAST else name}\n", *lines, ""])


def _line(page: "Page") -> str:
    return f"- [{page.title}]({page.path})" + (f": {page.summary}" if page.summary else "")
