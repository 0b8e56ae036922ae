"""Errors about a missing extra name a command that installs it, for each way to install this package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openenv.envs import catalog
from openenv.formats.json_text import json_text
from openenv.installation import install_line


def _install(site: Path, origin: dict[str, object] | None) -> None:
    """Write the metadata of an installed distribution of this package's name."""
    about = site / "openenv_rl-9.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: openenv-rl\nVersion: 9\n")
    if origin is not None:
        (about / "direct_url.json").write_text(json_text(origin))


@pytest.mark.process
@pytest.mark.finding("training needs no file, and printed commands run")
def test_pip_accepts_the_line_and_finds_the_extra() -> None:
    command = f"{install_line('atari')} --dry-run --no-deps"
    programs = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(["bash", "-c", command], env={**os.environ, **programs}, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stderr
    assert "Would install openenv-rl" in ran.stdout
    assert "does not provide the extra" not in ran.stdout + ran.stderr


@pytest.mark.parametrize(("is_editable", "option"), [(True, "-e "), (False, "")])
def test_the_line_names_the_folder_from_which_the_package_was_installed(
    is_editable: bool, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "my checkout"
    checkout.mkdir()
    _install(tmp_path / "site", {"url": checkout.as_uri(), "dir_info": {"editable": is_editable}})
    monkeypatch.syspath_prepend(tmp_path / "site")

    assert install_line("train") == f"pip install {option}'{checkout}[train]'"


@pytest.mark.parametrize(
    "origin",
    [
        None,
        {"url": "file:///gone", "dir_info": {}},
        {"url": "file:///tmp", "archive_info": {}},
        {"url": "https://example.org/openenv", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}},
    ],
    ids=["an index", "a folder that is gone", "a wheel", "git"],
)
def test_the_line_names_the_installed_package_where_there_is_no_folder(
    origin: dict[str, object] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, origin)
    monkeypatch.syspath_prepend(tmp_path)

    assert install_line("train") == "pip install 'openenv-rl[train]'"


def test_the_remedy_of_an_environment_is_the_line_of_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.envs.catalog.CatalogEntry.is_installed", False)

    assert catalog.load("atari").remedy == install_line("atari")
