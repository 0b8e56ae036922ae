"""A catalog: what it lists, and the index of one that is a folder."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
from packaging.version import InvalidVersion, Version

from openenv.catalog.entry import CatalogError, Entry, FolderSource, InstalledSource, copy_source
from openenv.catalog.pages import card_page, index_page
from openenv.certification.card import Card, files_digest, folder_version
from openenv.envs.catalog import read_manifest
from openenv.formats.json_text import json_text

FORMAT = 1
INDEX = "catalog.json"
_WORD = re.compile(r"[^\W_]+")


class Catalog:
    """The environments of one place, in their order there."""

    def __init__(self, place: str, entries: Sequence[Entry]) -> None:
        """place: what it is, for errors."""
        self.place = place
        self.entries = list(entries)

    def search(self, words: Iterable[str]) -> list[Entry]:
        """The environments that have one of the words in their name or description, those with most of them first.

        A word is found at the beginning of another, in either case. Without words: all.
        """
        wanted = [word for text in words for word in _words(text)]
        counts = [(sum(_has(entry, word) for word in wanted), entry) for entry in self.entries]
        return [entry for count, entry in sorted(counts, key=lambda pair: -pair[0]) if count or not wanted]

    def find(self, wanted: str) -> Entry:
        """The environment `NAME@VERSION`, or the newest version of `NAME`. Raises CatalogError that lists what is."""
        name, _, version = wanted.partition("@")
        named = [entry for entry in self.entries if entry.name == name]
        found = [entry for entry in named if not version or entry.version == version]
        if not found:
            known = [str(entry) for entry in named] or sorted({entry.name for entry in self.entries})
            raise CatalogError(f"{wanted} is not in {self.place}, which has {', '.join(known) or 'nothing'}")
        return max(found, key=_order)


def read_folder(folder: Path) -> Catalog:
    """The catalog of a folder. Raises CatalogError for one without an index, or with a wrong one; CardError."""
    fields = _index(folder)
    try:
        return Catalog(str(folder), [_entry(folder, **one) for one in fields["environments"]])
    except (TypeError, KeyError) as error:
        raise CatalogError(f"{folder / INDEX} is no index of a catalog: {error}") from error


def listing(environment: Path, folder: Path) -> dict[str, str]:
    """What the index of a catalog's folder is to have of an environment's folder, as it is now.

    Raises CatalogError for a name, version or description that cannot be listed, and for a version that the catalog has
    with another source; CardError for a link.
    """
    manifest = read_manifest(environment / "openenv.yaml")
    name, version = str(manifest.get("name", "")), folder_version(environment)
    try:
        Version(version)
    except InvalidVersion as error:
        raise CatalogError(f"{environment}: version {version!r}: write one, as 0.1.0, in its pyproject.toml") from error
    one = {
        "name": name, "version": version, "description": " ".join(str(manifest.get("description", "")).split()),
        "digest": files_digest(environment), "path": f"environments/{name}-{version}",
        "card": f"cards/{name}-{version}.json",
    }  # fmt: skip
    Entry(name=name, version=version, description=one["description"], source=InstalledSource(digest=one["digest"]))
    for other in _listed(folder):
        if (other["name"], other["version"]) == (name, version) and other["digest"] != one["digest"]:
            raise CatalogError(f"{folder} has {name}@{version} with another source: raise it in pyproject.toml")
    return one


def publish(card: Card, environment: Path, folder: Path) -> Entry:
    """Add an environment and its card to the catalog of a folder, which is made if it is not there.

    Args:
        card: of this source, and signed.
        environment: the folder of the source.
        folder: of the catalog.

    Raises:
        CatalogError: as `listing`, and for a card with a failed proof, or of another source.
    """
    one = listing(environment, folder)
    if not card.ok:
        failed = ", ".join(one["name"] for one in card.proofs if one["status"] == "fail")
        raise CatalogError(f"a card with a failed proof is not published: {failed}")
    if card.source != one["digest"]:
        raise CatalogError(f"{environment} is now {one['digest']}, and the card is of {card.source}: certify it again")
    copy_source(environment, folder / one["path"])
    path = folder / one["card"]
    path.parent.mkdir(exist_ok=True)
    path.write_text(card.text(), encoding="utf-8")
    entry = _entry(folder, **one)
    path.with_suffix(".md").write_text(card_page(card, str(entry)), encoding="utf-8")
    listed = [*(other for other in _listed(folder) if other["path"] != one["path"]), one]
    (folder / INDEX).write_text(json_text({"format": FORMAT, "environments": listed}, indent=1), encoding="utf-8")
    (folder / "README.md").write_text(index_page(read_folder(folder).entries), encoding="utf-8")
    return entry


def _listed(folder: Path) -> list[dict[str, str]]:
    """What the index of a folder has; nothing where there is no index yet."""
    return list(_index(folder)["environments"]) if (folder / INDEX).is_file() else []


def _index(folder: Path) -> Mapping[str, Any]:
    path = folder / INDEX
    try:
        fields = orjson.loads(path.read_bytes())
    except OSError as error:
        raise CatalogError(f"{folder} has no {INDEX}, which `openenv certify --publish` writes") from error
    except ValueError as error:
        raise CatalogError(f"{path} is not JSON: {error}") from error
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise CatalogError(f"{path} is no index of format {FORMAT}")
    return fields


def _entry(folder: Path, *, name: str, version: str, description: str, digest: str, path: str, card: str) -> Entry:
    return Entry(
        name=name,
        version=version,
        description=description,
        source=FolderSource(folder=_inside(folder, path), digest=digest),
        card=Card.read(_inside(folder, card)),
    )


def _inside(folder: Path, path: str) -> Path:
    """A path of the catalog. Raises CatalogError for one that leads out of it."""
    found = (folder / PurePosixPath(path)).resolve()
    if not found.is_relative_to(folder.resolve()):
        raise CatalogError(f"{folder / INDEX}: {path!r} leads out of the catalog")
    return found


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _has(entry: Entry, word: str) -> bool:
    return any(one.startswith(word) for one in _words(f"{entry.name} {entry.description}"))


def _order(entry: Entry) -> tuple[bool, Version]:
    """Of versions; what is none, as a commit, is before all others."""
    try:
        return True, Version(entry.version)
    except InvalidVersion:
        return False, Version("0")
