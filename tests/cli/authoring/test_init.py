"""`openenv init` writes an environment that is checked, tested, served and trained on as it is."""

import dataclasses
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import openenv
from openenv.auto.environment import named_environment
from openenv.core.errors import CapacityReached
from openenv.core.generic_client import GenericEnvClient
from openenv.hosting.local_process import LocalServer
from openenv.rl.reports.results import load_results
from tests.cli.commands import OPENENV, run

NAME = "tide_pool_env"
SOURCE = Path(openenv.__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the environment was made."""
    made = tmp_path_factory.mktemp("made")
    assert run("init", NAME, "--output-dir", str(made)).returncode == 0
    return made


def test_the_files_have_the_shape_of_a_bundled_environment(folder: Path) -> None:
    written = {path.relative_to(folder / NAME).as_posix() for path in (folder / NAME).rglob("*") if path.is_file()}

    assert written == {
        "README.md", "__init__.py", "client.py", "models.py", "openenv.yaml", "pyproject.toml", "train.yaml",
        "server/Dockerfile", "server/__init__.py", "server/app.py", "server/environment.py",
        "tests/test_environment.py",
    }  # fmt: skip
    assert "class TidePoolEnv(EnvClient[TidePoolAction" in (folder / NAME / "client.py").read_text()
    assert yaml.safe_load((folder / NAME / "openenv.yaml").read_text())["name"] == NAME
    project = tomllib.loads((folder / NAME / "pyproject.toml").read_text())
    assert project["project"]["name"] == "openenv-tide-pool-env"
    assert project["tool"]["setuptools"]["packages"] == [NAME, f"{NAME}.server"]
    assert not any("$" in (folder / NAME / path).read_text() for path in written)


def test_the_files_are_formatted_and_sorted(folder: Path) -> None:
    ruff = [Path(sys.executable).with_name("ruff"), "--isolated", "--quiet"]
    subprocess.run([ruff[0], "check", *ruff[1:], "--select=E,F,I,B,UP", "--line-length=120", "."],
                   cwd=folder, check=True)  # fmt: skip
    subprocess.run([ruff[0], "format", *ruff[1:], "--check", "--line-length=120", "."], cwd=folder, check=True)


@pytest.mark.process
@pytest.mark.finding("the tests of a new environment run as its README prints them")
def test_every_check_passes_as_generated(folder: Path) -> None:
    checked = subprocess.run([*OPENENV, "check", f"./{NAME}", "--json"], cwd=folder, capture_output=True, text=True)

    rows = yaml.safe_load(checked.stdout)["rows"]
    assert {row["status"] for row in rows} == {"pass"}, [row for row in rows if row["status"] != "pass"]


@pytest.mark.process
@pytest.mark.finding("the tests of a new environment run as its README prints them")
def test_its_own_tests_pass_by_the_command_that_its_readme_prints(folder: Path) -> None:
    lines = (folder / NAME / "README.md").read_text(encoding="utf-8").splitlines()
    (command,) = (line for line in lines if line.startswith("pytest "))
    programs = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    ran = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**os.environ, **programs}, capture_output=True, text=True
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.process
def test_its_program_listens_where_its_options_ask_for(folder: Path) -> None:
    paths = {"PYTHONPATH": f"{folder}:{SOURCE}"}
    with (
        LocalServer(f"{NAME}.server.app", ["--max-sessions", "1"], env_vars=paths, start_timeout_s=20) as server,
        GenericEnvClient(base_url=server.base_url).sync() as env,
    ):
        assert env.reset(seed=1).observation["hint"] == "start"


@pytest.mark.process
def test_openenv_serve_gives_its_program_the_options(folder: Path) -> None:
    named = dataclasses.replace(named_environment(str(folder / NAME)), options=("--max-sessions", "1"))
    with named.running() as url, GenericEnvClient(base_url=url).sync() as env:
        env.reset(seed=1)
        with pytest.raises(CapacityReached), GenericEnvClient(base_url=url).sync() as second:
            second.reset(seed=1)


@pytest.mark.process
def test_a_typed_client_plays_on_its_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with named_environment(str(folder / NAME)).running() as url:
        monkeypatch.syspath_prepend(str(folder))
        from tide_pool_env import TidePoolAction, TidePoolEnv  # type: ignore[import-not-found]

        with TidePoolEnv(base_url=url) as env:
            assert env.reset(seed=1).observation.hint == "start"
            assert env.step(TidePoolAction(number=0)).observation.hint in ("higher", "correct")


@pytest.mark.process
def test_openenv_train_runs_on_it(folder: Path) -> None:
    config = yaml.safe_load((folder / NAME / "train.yaml").read_text())
    config["trainer"]["training"]["steps"] = 2
    config["evaluation"]["num_games"] = 20
    config["pretrain"] = {"max_decisions": 200, "steps": 5, "batch_size": 8}
    (folder / "short.yaml").write_text(yaml.safe_dump(config))

    subprocess.run([*OPENENV, "train", "short.yaml"], cwd=folder, check=True, capture_output=True)

    assert {result.role for result in load_results(folder / "runs" / NAME)} == {"baseline", "before", "after"}


@pytest.mark.parametrize("name", ["My-Env", "1st", "class", "_env", "openenv", "tests", "tür"])
def test_a_name_that_no_package_can_have_is_refused(name: str, tmp_path: Path) -> None:
    refused = run("init", name, "-o", str(tmp_path))

    assert refused.returncode == 2
    assert f"name={name!r}" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "my_env").mkdir()
    (tmp_path / "my_env" / "models.py").write_text("mine")

    refused = run("init", "my_env", "-o", str(tmp_path))

    assert refused.returncode == 2
    assert "exists already" in refused.stderr
    assert [path.read_text() for path in (tmp_path / "my_env").iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["json", "random", "numpy", "typer"])
def test_a_name_that_would_replace_a_module_of_python_is_refused(name: str, tmp_path: Path) -> None:
    refused = run("init", name, cwd=tmp_path)

    assert refused.returncode == 2
    assert f"choose another name, such as {name}_env" in " ".join(refused.stderr.replace("│", " ").split())
    assert not list(tmp_path.iterdir())
