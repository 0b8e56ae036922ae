"""`openenv show` prints what a model is shown and how its replies are read."""

import re
from pathlib import Path

import pytest

from tests.acceptance.games import thermostat
from tests.auto import guess_env
from tests.cli.commands import run

pytestmark = pytest.mark.process

THERMOSTAT = f"{Path(thermostat.__file__)}:ThermostatEnvironment"
GUESS = f"{Path(guess_env.__file__)}:GuessEnvironment"


def test_show_prints_the_prompt_and_plays_the_replies(tmp_path):
    shown = run("show", GUESS, "--seed", "3", "--reply", "3", "--reply", "many", cwd=tmp_path).stdout

    assert "Say the number that is written in words." in shown
    assert "Reply with a whole number from 0 to 9." in shown
    assert "action: number=3" in shown
    assert "reward: 1.0, done: True" in shown
    assert "names no action: 'many' names none of the actions" in shown


def test_show_reads_two_random_replies_and_one_that_names_nothing(openspiel_url, tmp_path):
    shown = run("show", openspiel_url, "--game", "catch", cwd=tmp_path).stdout

    assert shown.count("action: action_id=") == 2
    assert len(set(re.findall("action: action_id=.*", shown))) == 2
    assert "reply: I do not know\n  names no action" in shown


def test_show_names_the_fields_that_no_reply_sets(tmp_path):
    source = Path(guess_env.__file__).read_text()
    declared = "number: int = Field(ge=0, le=9"
    assert declared in source
    (tmp_path / "game.py").write_text(source.replace(declared, f"stake: int = 1\n    {declared}"))

    shown = run("show", "game.py:GuessEnvironment", cwd=tmp_path).stdout

    assert "No reply sets stake: fields with a default keep it beside one that has none." in shown
    assert "No reply sets" not in run("show", GUESS, cwd=tmp_path).stdout
    assert "No reply sets" not in run("show", THERMOSTAT, cwd=tmp_path).stdout


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_a_reply_that_only_the_environments_own_class_refuses_is_shown_with_the_reason(tmp_path):
    source = Path(guess_env.__file__).read_text()
    declared = "number: int = Field(ge=0, le=9"
    rule = "AfterValidator(lambda number: number if number != 3 else int('three'))"
    changed = source.replace(declared, declared.replace("int =", f"Annotated[int, {rule}] ="))
    (tmp_path / "game.py").write_text(
        changed.replace("from pydantic import", "from typing import Annotated\nfrom pydantic import AfterValidator,")
    )

    shown = run("show", "game.py:GuessEnvironment", "--reply", "3", "--reply", "4", cwd=tmp_path)

    assert "action: number=3\n  refused: Invalid message: number: " in shown.stdout
    assert "action: number=4\n  then: " in shown.stdout
    assert shown.returncode == 0


def test_a_game_is_chosen_by_the_keyword_of_its_environment(tmp_path):
    shown = run("show", "trading", "--game", "portfolio", cwd=tmp_path)

    assert (
        shown.stderr.strip() == "openenv: --game portfolio: trading chooses no game by name. Write --reset KEY=VALUE."
    )
