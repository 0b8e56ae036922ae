"""An author follows docs/first-environment.md: `openenv init`, three files, and an environment that is trained on."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from openenv.rl.reports.results import load_results

pytestmark = pytest.mark.process

PAGE = Path(__file__).parents[2] / "docs/first-environment.md"
_FILE = re.compile(r"^## `(\S+)`\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OPENENV = [sys.executable, "-m", "openenv"]
OPTIMUM = 0.655
"""The mean over 1 to 40 cents of 1 - 0.1 times the fewest coins, which the largest coins are."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the page's commands are called, after its edits."""
    made = tmp_path_factory.mktemp("author")
    subprocess.run([*OPENENV, "init", "change_env"], cwd=made, check=True)
    files = dict(_FILE.findall(PAGE.read_text()))
    assert len(files) == 3
    for name, code in files.items():
        assert (made / name).is_file()
        (made / name).write_text(code)
    return made


def test_every_check_passes(folder: Path) -> None:
    checked = subprocess.run([*OPENENV, "check", "./change_env", "--json"], cwd=folder, capture_output=True, text=True)

    rows = json.loads(checked.stdout)["rows"]
    assert len(rows) == 16
    assert [row for row in rows if row["status"] != "pass"] == []


def test_the_pages_tests_pass(folder: Path) -> None:
    readme = (folder / "change_env" / "README.md").read_text()
    (line,) = (line for line in readme.splitlines() if line.startswith("pytest"))
    command = shlex.split(line, comments=True)

    subprocess.run([Path(sys.executable).with_name(command[0]), *command[1:]], cwd=folder, check=True)


def test_a_model_is_shown_the_amount_and_its_replies_are_read(folder: Path) -> None:
    command = [*OPENENV, "show", "./change_env", "--reply", "25"]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout

    assert "Pay the amount due with few coins" in shown
    assert "action: coin=25" in shown


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_model_learns_to_pay_with_the_fewest_coins(folder: Path) -> None:
    subprocess.run([*OPENENV, "train", "change_env/train.yaml"], cwd=folder, check=True)

    name = yaml.safe_load((folder / "change_env/train.yaml").read_text())["name"]
    results = {result.role: result for result in load_results(folder / "runs" / name)}
    assert results["baseline"].mean_return < 0
    assert results["after"].mean_return >= OPTIMUM - 0.02
