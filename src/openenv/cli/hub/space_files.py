"""The files of an environment's Space: what of its folder goes there, its Dockerfile, and the header of its README."""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from openenv.cli.containers.build import BASE_DOCKERFILE
from openenv.cli.containers.dockerfile import BASE, bundled_dockerfile
from openenv.formats.yaml_text import parse_yaml
from openenv.hosting.shared_files import shared_files, withheld_files
from openenv.installation import BUNDLE, bundle_version
from openenv.web import PAGE_VARIABLE

_FROM = re.compile(r"^FROM((?:\s+--\S+)*)\s+(\S+)", re.IGNORECASE | re.MULTILINE)
_HEADER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


def write_space(
    folder: Path,
    space: Path,
    manifest: Mapping[str, Any],
    *,
    excluded: Sequence[str],
    base_image: str | None,
    has_page: bool | None,
) -> list[str]:
    """Write the files of the Space of `folder` into the empty folder `space`. Returns the files with secrets, left out.

    Args:
        excluded: patterns of further files to leave out.
        base_image: what the Dockerfile begins with instead of its own.
        has_page: whether the server has the page at /web; None: as the Dockerfile has it, else yes.

    Raises:
        ValueError: for a link, a folder without a Dockerfile, and a README of another kind of Space.
    """
    sent = shared_files(folder, excluded)
    for path in sent:
        written = space / path
        if (folder / path).is_symlink():
            raise ValueError(f"{folder / path} is a link, which a Space cannot have: copy its target, or --exclude it")
        written.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / path, written)
    dockerfile = _put_at_top(space, folder)
    text, has_page = _space_dockerfile(dockerfile.read_text(encoding="utf-8"), base_image, has_page)
    dockerfile.write_text(text, encoding="utf-8")
    readme = space / "README.md"
    content = readme.read_text(encoding="utf-8") if readme.is_file() else f"{manifest.get('description', '')}\n"
    readme.write_text(with_header(content, manifest, has_page=has_page), encoding="utf-8")
    return withheld_files(folder, sent)


def _put_at_top(space: Path, folder: Path) -> Path:
    """Put the Dockerfile where a Space has it. Raises ValueError where there is none."""
    top, inner = space / "Dockerfile", space / "server" / "Dockerfile"
    if not top.is_file():
        bundled = bundled_dockerfile(folder)
        if bundled is not None:
            top.write_text(bundled, encoding="utf-8")
        elif inner.is_file():
            inner.rename(top)
        else:
            raise ValueError(f"{folder} has no Dockerfile and no server/Dockerfile, of which the Hub builds the Space")
    return top


def _space_dockerfile(text: str, base_image: str | None, has_page: bool | None) -> tuple[str, bool]:
    """The Dockerfile as the Hub can build it, and whether its server has the page at /web."""
    if base_image is not None:
        text = with_base_image(text, base_image)
    bases = [(line.start(), line[2]) for line in _FROM.finditer(text)]
    if any(image == BASE for _, image in bases):
        first = bases[0][0]
        text = f"{text[:first]}{_base_stage()}{text[first:]}"
    declared = re.search(rf"^ENV\s.*\b{PAGE_VARIABLE}[= ]\"?(\w+)", text, re.IGNORECASE | re.MULTILINE)
    if has_page is None and declared:
        return text, declared[1].lower() in ("true", "1", "yes")
    page = has_page is not False
    return with_page(text, has_page=page), page


def with_base_image(text: str, base_image: str) -> str:
    """A Dockerfile that begins with another image. Raises ValueError for one without a line FROM."""
    text, found = _FROM.subn(lambda line: f"FROM{line[1]} {base_image}", text, count=1)
    if not found:
        raise ValueError(f"--base-image {base_image}: the Dockerfile has no line FROM to replace")
    return text


def with_page(text: str, *, has_page: bool) -> str:
    """A Dockerfile whose servers have the page at `/web`, to which `/` leads, or have none."""
    return f"{text.rstrip()}\nENV {PAGE_VARIABLE}={str(has_page).lower()}\n"


def _base_stage() -> str:
    """The Dockerfile of the base image as a stage of that name: the Hub has no such image."""
    lines = [line for line in BASE_DOCKERFILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    stage = "\n".join(lines).replace("ARG OPENENV=/src", f"ARG OPENENV={BUNDLE}=={bundle_version()}")
    return _FROM.sub(lambda line: f"{line[0]} AS {BASE}", stage, count=1) + "\n\n"


def with_header(readme: str, manifest: Mapping[str, Any], *, has_page: bool) -> str:
    """A README with the header of a Docker Space. A header's own values stay; what it lacks is added.

    Raises ValueError for a header that is not YAML, or of another kind of Space.
    """
    found = _HEADER.match(readme)
    own = (parse_yaml(found[1], "the header of README.md", first_line=2) or {}) if found else {}
    if not isinstance(own, dict) or own.get("sdk", "docker") != "docker":
        raise ValueError("the header of README.md is not that of a Docker Space: write `sdk: docker` into it")
    title = re.sub(r"[_-]+", " ", str(manifest["name"])).title()
    needed: dict[str, Any] = {"title": title, "sdk": "docker", "app_port": manifest.get("port", 8000)}
    if has_page:
        needed["base_path"] = "/web"
    tags = own.get("tags") or []
    header = {**needed, **own, "tags": tags if "openenv" in tags else [*tags, "openenv"]}
    if header == own:
        return readme
    body = readme[found.end() :] if found else f"\n{readme}"
    return f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n{body}"
