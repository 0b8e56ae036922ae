"""`openenv pull`: download the files of an environment, from a catalog or a Space of the Hugging Face Hub."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from openenv.catalog.entry import Entry
from openenv.cli.hub.account import require_space_id
from openenv.cli.hub.places import PLACES, download_space, opened
from openenv.envs.catalog import read_manifest

EXAMPLE = "Examples: `openenv pull owner/my-env`, `openenv pull maze@0.2.0 --catalog ./environments`"
_MANIFEST = "openenv.yaml"


def pull(
    wanted: str = typer.Argument(
        help="Download this Space, OWNER/NAME, or this environment of a catalog, NAME or NAME@VERSION.",
        metavar="ENVIRONMENT",
    ),
    output_dir: Path = typer.Option(
        Path(),
        "--output-dir",
        "-o",
        help="Make its folder in this one (default: the current folder).",
        show_default=False,
    ),
    revision: str = typer.Option("main", "--revision", help="Download this branch, tag or commit of a Space."),
    catalog: str | None = typer.Option(
        None,
        envvar="OPENENV_CATALOG",
        help=f"Look for NAME in this catalog: {PLACES} (default: the environments that come with openenv).",
    ),
) -> None:
    """Download an environment, and print its folder, which has the name of its openenv.yaml. Of a catalog it is
    refused where its source is not that of the catalog's digest and of its signed card. Spaces need the extra `hub`,
    and a token for a private one; cards the extra `certify`. Nothing of it is run: read it before you serve it, because
    that runs code of its authors on this machine."""
    if "/" in wanted:
        require_space_id("ENVIRONMENT", wanted)
        folder = _placed(
            output_dir, wanted.partition("/")[2], lambda into: download_space(wanted, revision, into, _MANIFEST)
        )
        typer.echo(f"pulled {wanted} to {folder}; nothing of it was run\n")
    else:
        with opened(catalog) as found:
            entry = found.find(wanted)
            folder = _placed(output_dir, entry.name, lambda into: _pulled(entry, into))
        typer.echo(f"pulled {entry} to {folder}; nothing of it was run\n")
        typer.echo(f"source: {entry.source.digest}")
        if entry.card is not None:
            typer.echo(f"card:   {entry.proofs}; signed with {entry.card.fingerprint}\n")
    typer.echo(f"Read it, then:\n  openenv validate {folder} --level static\n  openenv serve {folder} --sandbox")


def _pulled(entry: Entry, into: Path) -> Path:
    folder = into / "source"
    folder.mkdir()
    entry.pull(folder)
    return folder


def _placed(output_dir: Path, name: str, download: Callable[[Path], Path]) -> Path:
    """Download files and give their folder the name of its manifest. Nothing is left where that fails.

    Raises ValueError for what is no environment; ends with exit code 2 where the folder is there already.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=output_dir, prefix=".pull-") as temporary:
        downloaded = download(Path(temporary))
        if not (downloaded / _MANIFEST).is_file():
            raise ValueError(f"{name} has no {_MANIFEST}: it is no environment of OpenEnv")
        folder = output_dir / _folder_name(downloaded / _MANIFEST, name)
        if folder.exists():
            raise typer.BadParameter(f"{folder} exists already: remove it, or give another --output-dir")
        downloaded.rename(folder)
    return folder


def _folder_name(manifest: Path, own: str) -> str:
    """The name in the manifest, under which modules import each other; else its own, as an identifier."""
    name = str(read_manifest(manifest).get("name") or "")
    return name if name.isidentifier() else own.replace("-", "_")
