"""The links of pages: from a file of the repository to the page, or the file, that they lead to on the site."""

import os.path
import posixpath
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

_CODE = re.compile(r"^(?P<fence>```+)[^\n]*\n.*?^(?P=fence)$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
_OTHER_SITE = re.compile(r"[a-z][a-z0-9+.-]*:")
_PLACEHOLDER = "\x00{}\x00"


class BrokenLink(ValueError):
    """A link of a page leads to no file."""


class Links:
    """Turns the links of a text into those of the site.

    A link to a file that has a page leads to the page. One to another file of the repository leads to it in the
    repository's address on the web, where pyproject.toml has one, and else becomes the file's name as code.
    """

    def __init__(self, root: Path, pages: Mapping[str, str]) -> None:
        """root: of the repository. pages: path of a page below the site by the file or folder that it is made from."""
        self._root = root
        self._pages = pages
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        self._repository: str | None = project.get("urls", {}).get("Repository")

    def resolved(self, text: str, source: str, page: str) -> str:
        """The text of a file with the links of its page. Raises BrokenLink, naming the file and the link.

        Args:
            text: Markdown.
            source: the file that it is from, below the root: its links begin there.
            page: where it is shown, below the site.
        """
        kept: list[str] = []

        def hide(found: re.Match[str]) -> str:
            kept.append(found[0])
            return _PLACEHOLDER.format(len(kept) - 1)

        hidden = _CODE.sub(hide, text)
        changed = _LINK.sub(lambda found: self._link(found, source, page), hidden)
        return re.sub("\x00(\\d+)\x00", lambda found: kept[int(found[1])], changed)

    def _link(self, found: re.Match[str], source: str, page: str) -> str:
        target = found["target"]
        if target.startswith("#") or _OTHER_SITE.match(target):
            return found[0]
        path, _, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if not (self._root / file).exists():
            raise BrokenLink(f"{source}: the link {target!r} leads to {file}, which is not there")
        place = self._place(file)
        if place is None:
            return self._outside(found["text"], file)
        relative = os.path.relpath(place, posixpath.dirname(page) or ".").replace(os.sep, "/")
        return f"{found['image']}[{found['text']}]({relative}{'#' if anchor else ''}{anchor})"

    def _place(self, file: str) -> str | None:
        """The file below the site, or None where the site does not have it."""
        if file in self._pages:
            return self._pages[file]
        return file.removeprefix("docs/") if file.startswith("docs/images/") else None

    def _outside(self, text: str, file: str) -> str:
        """A file of the repository that is no page."""
        if self._repository is not None:
            return f"[{text}]({self._repository}/blob/main/{file})"
        is_named = text.strip("`") == file or "\x00" in text
        return f"`{file}`" if is_named else f"{text} (`{file}`)"
