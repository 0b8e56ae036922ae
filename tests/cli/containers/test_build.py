"""`openenv build` refuses what it cannot build, and names what to do."""

from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("options", "named"),
    [(["--dockerfile", "x"], "--dockerfile"), (["--no-cache", "--build-arg", "A=b"], "--build-arg, --no-cache")],
)
def test_options_of_a_dockerfile_are_refused_where_none_is_used(options: list[str], named: str) -> None:
    refused = run("build", "echo", "--from-machine", *options)

    assert refused.returncode == 1
    assert f"{named}: not accepted with --from-machine" in refused.stderr


def test_a_folder_without_a_dockerfile_is_refused_with_both_remedies(tmp_path: Path) -> None:
    refused = run("build", folder(tmp_path / "mine"))

    assert refused.returncode == 1
    assert "mine/Dockerfile: give --dockerfile, or --from-machine" in refused.stderr


def test_an_argument_without_a_value_is_refused(tmp_path: Path) -> None:
    mine = folder(tmp_path / "mine")
    (tmp_path / "mine" / "Dockerfile").write_text("FROM scratch\n")

    assert "--build-arg A: write NAME=VALUE" in run("build", mine, "--build-arg", "A").stderr


def test_an_environment_that_needs_a_program_is_refused_from_the_machine() -> None:
    assert "git_env needs the program git" in run("build", "git", "--from-machine").stderr


def test_a_missing_docker_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = folder(tmp_path / "mine")
    (tmp_path / "mine" / "Dockerfile").write_text("FROM scratch\n")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "no command 'docker' on PATH" in run("build", mine).stderr


def test_an_engine_that_does_not_answer_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nothing/here.sock")
    refused = run("build", "echo", "--from-machine")

    assert refused.returncode == 1
    assert "no container engine answers" in refused.stderr
    assert "DOCKER_HOST" in refused.stderr
