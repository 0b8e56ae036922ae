"""`openenv build` refuses what it cannot build, and names what to do."""

from pathlib import Path

import pytest

from openenv.formats.json_text import json_text
from tests.cli.commands import run


def folder(path: Path, pyproject: str = "") -> str:
    path.mkdir()
    (path / "openenv.yaml").write_text("name: mine\n")
    if pyproject:
        (path / "pyproject.toml").write_text(pyproject)
    return str(path)


def test_an_unknown_environment_is_named_with_one_that_is_near() -> None:
    refused = run("build", "ecko")

    assert refused.returncode == 1
    assert "Did you mean 'echo'?" in refused.stderr
    assert "openenv.yaml" in refused.stderr


def test_a_folder_without_a_dockerfile_is_refused_with_the_remedy(tmp_path: Path) -> None:
    refused = run("build", folder(tmp_path / "mine"))

    assert refused.returncode == 1
    assert "mine/Dockerfile: write one, or give --dockerfile" in refused.stderr


def test_an_argument_without_a_value_is_refused(tmp_path: Path) -> None:
    mine = folder(tmp_path / "mine")
    (tmp_path / "mine" / "Dockerfile").write_text("FROM scratch\n")

    assert "--build-arg A: write NAME=VALUE" in run("build", mine, "--build-arg", "A").stderr


def test_a_missing_docker_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = folder(tmp_path / "mine")
    (tmp_path / "mine" / "Dockerfile").write_text("FROM scratch\n")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "no command 'docker' on PATH" in run("build", mine).stderr


@pytest.mark.parametrize("is_clone", [True, False])
def test_the_base_is_built_from_the_folder_of_the_installation_or_from_the_index(
    is_clone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone, called = tmp_path / "clone", tmp_path / "called"
    clone.mkdir()
    if is_clone:
        (clone / "constraints.txt").touch()
    about = tmp_path / "site" / "openenv_rl-9.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: openenv-rl\nVersion: 9\n")
    (about / "direct_url.json").write_text(json_text({"url": clone.as_uri(), "dir_info": {}}))
    monkeypatch.syspath_prepend(tmp_path / "site")
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\necho "$@" >> {called}\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    assert run("build", "echo").returncode == 0
    base, environment = called.read_text().splitlines()
    assert base.startswith("build --tag=openenv-base ")
    assert base.endswith(f" {clone}") is is_clone
    assert ("--build-arg=OPENENV=openenv-rl==9" in base) is not is_clone
    assert environment.startswith("build --tag=echo-env:latest ")
