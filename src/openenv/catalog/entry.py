"""An environment of a catalog: its name and version, where its source is, and the card that proves it."""

import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from openenv.certification.card import Card, files_digest, source_files
from openenv.hosting.git_commit import fetched_commit

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]*")
_LISTED = "a name has letters, digits, _ and -, and a version also . + !; a description is one line"
"""What a catalog may list."""


class CatalogError(ValueError):
    """A catalog that cannot be read, an environment that it does not have, or one whose source is another."""


@dataclass(frozen=True, kw_only=True)
class FolderSource:
    """Files of the catalog itself."""

    folder: Path
    digest: str
    """Of its files, as `files_digest` returns it."""

    def copy(self, into: Path) -> None:
        """Copy the files. Raises CatalogError where they are not those of the digest."""
        copy_source(self.folder, into)
        found = files_digest(into)
        if found != self.digest:
            raise CatalogError(f"the catalog names the source {self.digest}, and its files are {found}")


@dataclass(frozen=True, kw_only=True)
class GitSource:
    """A folder of one commit of a repository. The commit's name is the digest of its files, which git checks."""

    digest: str
    """The name of the commit."""
    uri: str
    path: str

    def copy(self, into: Path) -> None:
        """Copy the files. Raises ContainerFault where git fails, CatalogError for a path or link that leads out."""
        with fetched_commit(self.uri, self.digest) as root:
            found = Path(root, self.path).resolve()
            if not found.is_relative_to(Path(root).resolve()):
                raise CatalogError(f"{self.path!r} leads out of the repository {self.uri}")
            copy_source(found, into)


@dataclass(frozen=True, kw_only=True)
class InstalledSource:
    """An environment that comes with the package."""

    digest: str

    def copy(self, into: Path) -> None:
        """Raise CatalogError: it is here already."""
        raise CatalogError("it comes with openenv, so that `openenv serve` starts it by its name: nothing to pull")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a catalog has of one version of an environment."""

    name: str
    version: str
    description: str
    source: FolderSource | GitSource | InstalledSource
    card: Card | None = None

    def __post_init__(self) -> None:
        """Raise CatalogError for a name or version that is no part of a path, and for what a terminal would obey."""
        if not (_NAME.fullmatch(self.name) and _VERSION.fullmatch(self.version) and self.description.isprintable()):
            raise CatalogError(f"{self.name!r}, version {self.version!r}, {self.description!r}: {_LISTED}")

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def proofs(self) -> str:
        """How many proofs of its card ended how; empty without a card."""
        if self.card is None:
            return ""
        counts = Counter(one["status"] for one in self.card.proofs)
        shown = ", ".join(f"{counts[status]} {status}" for status in ("pass", "warn", "fail") if counts[status])
        return shown if self.card.source == self.source.digest else f"{shown}, of an earlier source"

    def pull(self, into: Path) -> None:
        """Copy the source to an empty folder. Nothing of it is run.

        Raises:
            CatalogError: where the source is not that of the catalog or of its card, and for an environment that comes
                with the package.
            CardError: where the card was changed after it was signed.
            ContainerFault: where git fails.
            ImportError: without the extra.
        """
        if self.card is not None:
            self.card.verify()
            if self.card.source != self.source.digest:
                raise CatalogError(f"{self}: its card is of the source {self.card.source}, not {self.source.digest}")
        try:
            self.source.copy(into)
        except CatalogError as error:
            raise CatalogError(f"{self}: {error}") from error


def copy_source(folder: Path, into: Path) -> None:
    """Copy the files of an environment's source. Raises CardError for a link among them."""
    for path in source_files(folder):
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / path, into / path)
