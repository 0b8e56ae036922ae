"""Where a catalog is: the package, a folder, a git repository, a Space of the Hub, or a file of the published form."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from openenv.catalog.bundled import bundled
from openenv.catalog.entry import CatalogError
from openenv.catalog.index import INDEX, Catalog, read_folder
from openenv.catalog.published import read_published
from openenv.cli.hub.account import hub_api, hub_errors
from openenv.hosting.git_commit import fetched_commit

GIT = "git+"
PLACES = (
    f"a folder with {INDEX}, {GIT}URL or {GIT}URL@COMMIT, a Space OWNER/NAME, or a FILE.json of the published package"
)
"""The forms of a place."""


@contextmanager
def opened(place: str | None) -> Iterator[Catalog]:
    """The catalog of a place, whose files are there until the end of the `with` statement; None: of the package.

    Raises:
        CatalogError: for a place that is no catalog.
        ContainerFault: where git fails.
        OSError: where the Hub cannot be reached.
        ImportError: without the extra.
    """
    if place is None:
        yield bundled()
    elif place.startswith(GIT):
        beginning, slash, name = place.removeprefix(GIT).rpartition("/")
        name, _, commit = name.partition("@")
        with fetched_commit(f"{beginning}{slash}{name}", commit or "HEAD") as folder:
            yield read_folder(Path(folder))
    elif Path(place).is_file():
        yield read_published(Path(place))
    elif Path(place).is_dir():
        yield read_folder(Path(place))
    elif place.count("/") == 1 and not place.startswith((".", "/", "~")):
        with TemporaryDirectory(prefix="openenv-catalog-") as folder:
            yield read_folder(download_space(place, "main", Path(folder), INDEX))
    else:
        raise CatalogError(f"{place} is no catalog: give {PLACES}")


def download_space(space: str, revision: str, into: Path, required: str) -> Path:
    """Download the files of a Space. Returns their folder, a new one in a folder.

    Args:
        space: OWNER/NAME.
        revision: a branch, a tag or a commit.
        into: the folder, which is there.
        required: a file without which nothing is downloaded.

    Raises:
        HubFault: where the Hub refuses or cannot be reached.
        ImportError: without the extra.
        ValueError: for a Space without the file.
    """
    api = hub_api()
    with hub_errors(f"cannot read {space}"):
        files = api.list_repo_files(space, repo_type="space", revision=revision)
    if required not in files:
        raise ValueError(f"{space} has no {required}, so that it is not what it is asked for")
    with hub_errors(f"cannot download {space}"):
        folder = Path(api.snapshot_download(space, repo_type="space", revision=revision, local_dir=into / "source"))
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    return folder
