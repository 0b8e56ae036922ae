"""`openenv pull`: download the files of a Space of the Hugging Face Hub."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from openenv.cli.hub.account import hub_api, hub_errors, require_space_id
from openenv.envs.catalog import read_manifest

EXAMPLE = "Example: `openenv pull owner/my-env --output-dir .`"
_MANIFEST = "openenv.yaml"


def pull(
    space: str = typer.Argument(help="Download this Space, OWNER/NAME."),
    output_dir: Path = typer.Option(
        Path(),
        "--output-dir",
        "-o",
        help="Make its folder in this one (default: the current folder).",
        show_default=False,
    ),
    revision: str = typer.Option("main", "--revision", help="Download this branch, tag or commit."),
) -> None:
    """Download the environment of a Space of the Hub, and print its folder, which has the name of its openenv.yaml.
    Needs the extra `hub`, and a token for a private Space. Nothing of it is run: read it before you serve it, because
    that runs code of its authors on this machine."""
    require_space_id("SPACE", space)
    api = hub_api()
    with hub_errors(f"cannot read {space}"):
        files = api.list_repo_files(space, repo_type="space", revision=revision)
    if _MANIFEST not in files:
        raise ValueError(f"{space} has no {_MANIFEST}: it is no environment of OpenEnv")
    output_dir.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=output_dir, prefix=".pull-") as temporary:
        with hub_errors(f"cannot download {space}"):
            downloaded = Path(
                api.snapshot_download(space, repo_type="space", revision=revision, local_dir=Path(temporary, "space"))
            )
        shutil.rmtree(downloaded / ".cache", ignore_errors=True)
        folder = output_dir / _folder_name(downloaded / _MANIFEST, space)
        if folder.exists():
            raise typer.BadParameter(f"{folder} exists already: remove it, or give another --output-dir")
        downloaded.rename(folder)
    typer.echo(f"pulled {space} to {folder} ({len(files)} files); nothing of it was run\n")
    typer.echo(f"Read it, then:\n  openenv validate {folder} --level static\n  openenv serve {folder} --sandbox")


def _folder_name(manifest: Path, space: str) -> str:
    """The name in the manifest, under which modules import each other; else the Space's own, as an identifier."""
    name = str(read_manifest(manifest).get("name") or "")
    own = space.partition("/")[2].replace("-", "_")
    return name if name.isidentifier() else own
