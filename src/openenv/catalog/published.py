"""Catalogs of the published package, which `openenv catalog build` writes: snapshots of a repository's environments."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from openenv.catalog.entry import CatalogError, Entry, GitSource
from openenv.catalog.index import Catalog

SCHEMA_VERSION = "0.1-draft"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def read_published(path: Path) -> Catalog:
    """The environments of a snapshot, each at the commit that it names, which is its version.

    Raises CatalogError for a file of another form, an incomplete snapshot, and one that differs from its digest.
    """
    try:
        fields = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CatalogError(f"{path} is no catalog: {error}") from error
    if not isinstance(fields, dict) or fields.get("schema_version") != SCHEMA_VERSION:
        raise CatalogError(f"{path} is no snapshot of schema_version {SCHEMA_VERSION!r}")
    if not fields.get("complete"):
        raise CatalogError(f"{path} is incomplete: its `issues` name the environments that could not be read")
    if fields.get("digest") != _digest(fields):
        raise CatalogError(f"{path}: its content is not that of its digest: it was changed")
    try:
        return Catalog(str(path), [_entry(one["data"], one.get("tags", [])) for one in fields["entries"]])
    except (KeyError, TypeError, AttributeError) as error:
        raise CatalogError(f"{path} is no snapshot: {error!r}") from error


def _entry(card: Mapping[str, Any], tags: list[str]) -> Entry:
    source = card["source"]
    uri, commit, within = source["uri"], source["revision"], source["path"]
    if not _COMMIT.fullmatch(commit) or not uri.startswith("https://") or ".." in within.split("/"):
        raise CatalogError(f"{card['name']}: the source {uri} at {commit!r}, {within!r} is no folder of a commit")
    return Entry(
        name=card["name"],
        version=commit,
        description=" ".join(" ".join([card["description"], *tags]).split()),
        source=GitSource(uri=uri, digest=commit, path=within),
    )


def _digest(fields: Mapping[str, Any]) -> str:
    content = {name: value for name, value in fields.items() if name != "digest"}
    return f"sha256:{hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()}"
