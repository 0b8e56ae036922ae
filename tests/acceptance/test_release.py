"""The wheel and the source distribution, built and installed as a release would be."""

import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from openenv.envs.catalog import entries
from tests.acceptance.printed_commands import ROOT

pytestmark = pytest.mark.process

PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]
_EXTRAS = re.compile(r"pip install .*?\[([\w,-]+)\]")
_KEPT = {"__pycache__", ".ipynb_checkpoints", ".hypothesis", "runs"}
_PLAYS = """
from openenv import AutoEnv
with AutoEnv.from_env("guess") as env:
    result = env.reset(seed=3)
    while not result.done:
        result = env.step({"number": 1})
    print(result.reward)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both files."""
    folder = tmp_path_factory.mktemp("dist")
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "build", "--quiet", "--out-dir", str(folder), str(ROOT)], check=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with the wheel and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    found = folder / "bin/python"
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(found), str(wheel)], check=True, timeout=300)
    return found


def files_of(*folders: str) -> set[str]:
    """The paths of files in folders of the repository, but for what Python and tools keep there."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in found if not _KEPT.intersection(path.parts)}


def ran(python: Path, *arguments: str, folder: Path) -> str:
    """What a command of the installed package prints, in a folder without the sources."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, *arguments], cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_all_files_of_the_package_and_no_others(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert packed == {name.removeprefix("src/") for name in files_of("src")}


def test_the_source_distribution_has_examples_docs_and_tests(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}

    assert files_of("examples", "docs", "tests", "website") - packed == set()
    assert {"README.md", "LICENSE", "Makefile"} <= packed


def test_the_installed_wheel_lists_serves_and_plays(python: Path, tmp_path: Path) -> None:
    listed = json.loads(ran(python, "-m", "openenv", "envs", "--json", folder=tmp_path))
    found = ran(python, "-m", "openenv", "search", "word", folder=tmp_path)
    reward = ran(python, "-c", _PLAYS, folder=tmp_path)

    assert [one["name"] for one in listed] == [entry.name for entry in entries()]
    assert "guess" in found
    assert float(reward) in (0.0, 1.0)


def test_the_installed_wheel_makes_an_environment_that_can_be_checked(python: Path, tmp_path: Path) -> None:
    ran(python, "-m", "openenv", "init", "my_env", folder=tmp_path)

    assert "fail" not in ran(python, "-m", "openenv", "validate", "my_env", "--level", "static", folder=tmp_path)


def test_every_extra_of_a_printed_installation_is_one_of_the_wheel(metadata: Message) -> None:
    named = {
        extra
        for page in PAGES
        for extras in _EXTRAS.findall((ROOT / page).read_text(encoding="utf-8"))
        for extra in extras.split(",")
    }

    assert len(named) > 10
    assert named - set(metadata.get_all("Provides-Extra") or ()) == set()
