"""`openenv envs` lists the bundled environments."""

import json
import subprocess

import pytest

from openenv.evaluation.measuring import SHOWN_CHECKS
from tests.cli.commands import OPENENV, run


def test_envs_lists_environments_and_whether_they_are_installed():
    found = {row["name"]: row for row in json.loads(run("envs", "--json").stdout)}

    assert found["echo"]["installed"]
    assert found["openspiel"]["extra"] == "openspiel"


def test_the_package_runs_as_a_module_too():
    listed = subprocess.run([*OPENENV, "envs", "--json"], capture_output=True, text=True, check=True)

    assert listed.stdout == run("envs", "--json").stdout


def test_envs_lists_the_tasks_of_each_environment_and_counts_them():
    tasks = json.loads(run("envs", "--list", "--json").stdout)

    assert tasks["maze"] == {"maze": {}}
    assert tasks["openspiel"]["blackjack"] == {"game_name": "blackjack"}
    assert tasks["openspiel"]["misere"] == {"game_name": "misere", "game_params": {"game": {"name": "tic_tac_toe"}}}
    last = run("envs", "--list").stdout.splitlines()[-1]
    assert last == f"{sum(map(len, tasks.values()))} tasks in {len(tasks)} environments"


@pytest.mark.process
def test_envs_measures_players_and_speed_of_an_environment_beside_the_bare_one():
    (row,) = json.loads(run("envs", "--measure", "--only", "guess", "--json").stdout)

    assert row["environment"] == row["task"] == "guess"
    assert 0 < row["client_steps"] < row["bare_steps"]
    assert row["random"]["mean_return"] == pytest.approx(0.1, abs=0.05)
    assert row["heuristic"]["mean_return"] == row["best_return"] == 1.0
    assert row["checks"].keys() == set(SHOWN_CHECKS)
    assert "fail" not in row["checks"].values()  # a busy machine may not finish one in time


def test_an_environment_that_is_not_known_is_not_measured():
    refused = run("envs", "--measure", "--only", "maize")

    assert refused.returncode != 0
    assert "environment 'maize' is not among" in refused.stderr


@pytest.mark.process
def test_an_environment_that_cannot_be_measured_is_named_and_the_others_are_shown(monkeypatch):
    monkeypatch.setenv("PATH", "")  # git has no program then

    measured = run("envs", "--measure", "--only", "git", "--only", "guess", "--json")

    assert measured.returncode == 1
    assert [row["environment"] for row in json.loads(measured.stdout)] == ["guess"]
    assert measured.stderr.splitlines()[-1].startswith("git: ")
