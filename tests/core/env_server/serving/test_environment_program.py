"""One class gives the program and the application of an environment; a settings class gives the options of both."""

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from openenv.core.env_server import Action, Environment, Observation, State
from openenv.core.env_server.serving.environment_program import EnvironmentProgram
from openenv.core.env_server.serving.settings import json_object, option
from openenv.core.generic_client import GenericEnvClient
from openenv.envs.echo_env.server.environment import EchoEnvironment

WIND = Literal["none", "north"]


@dataclass(frozen=True, kw_only=True)
class ForestSettings:
    size: int = option(8, "Rows of the forest")
    spread: float = option(0.3, "Chance that a tree catches fire", variable="FOREST_CHANCE")
    wind: WIND | None = option(None, "Where the wind comes from", unset="drawn")
    is_dry: bool = option(False, "Let trees be dry", name="dry")
    trees: tuple[str, ...] = option((), "Kinds of trees, with commas", unset="all")
    rules: dict[str, Any] = option({}, "Other rules as a JSON object")
    players: str | list[str] = option("one", "A name, or several with commas")
    hidden: int = 3


class Cut(Action):
    row: int


class Forest(Environment[Cut, Observation, State]):
    """Cut trees.

    A second paragraph.
    """

    def __init__(self, size: int, spread: float, **others: Any) -> None:
        if size < 2:
            raise ValueError(f"size={size}: expected a whole number from 2.")
        self.fields = {"size": size, "spread": spread, **others}

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        return Observation(metadata=self.fields)

    def step(self, action: Cut, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        return Observation(done=True)

    @property
    def state(self) -> State:
        return State()


FOREST = EnvironmentProgram(Forest, ForestSettings)
DEFAULTS = ForestSettings()


def test_a_field_of_the_settings_is_an_option_a_variable_and_an_argument_of_the_environment(serving):
    with GenericEnvClient(base_url=serving(FOREST.build(size=5, hidden=4))).sync() as env:
        seen = env.reset().observation["metadata"]

    assert (seen["size"], seen["spread"], seen["hidden"]) == (5, 0.3, 4)


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("FOREST_SIZE", "5", "size", 5),
        ("FOREST_SIZE", "", "size", 8),
        ("FOREST_CHANCE", "0.5", "spread", 0.5),
        ("FOREST_WIND", "north", "wind", "north"),
        ("FOREST_DRY", "1", "is_dry", True),
        ("FOREST_DRY", "False", "is_dry", False),
        ("FOREST_TREES", "oak, fir", "trees", ("oak", "fir")),
        ("FOREST_RULES", '{"rain": 1}', "rules", {"rain": 1}),
        ("FOREST_PLAYERS", "two", "players", "two"),
        ("FOREST_PLAYERS", "one,two", "players", ["one", "two"]),
        ("FOREST_HIDDEN", "9", "hidden", 3),
    ],
)
def test_an_environment_variable_is_read_as_the_annotation_of_its_field_has_it(variable, text, field, value):
    assert getattr(FOREST.settings({variable: text}), field) == value


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("FOREST_SIZE", "big", "size='big': expected a whole number"),
        ("FOREST_CHANCE", "often", "spread='often': expected a number"),
        ("FOREST_WIND", "up", "wind='up': expected none or north"),
        ("FOREST_DRY", "maybe", "is_dry='maybe': expected 1, 0, true or false"),
        ("FOREST_RULES", "{rain: 1}", "rules='{rain: 1}' is not JSON"),
        ("FOREST_RULES", "[1]", "expected a JSON object"),
    ],
)
def test_a_text_that_cannot_be_read_is_an_error_with_the_name_of_its_field(variable, text, message):
    with pytest.raises(ValueError, match=message):
        FOREST.settings({variable: text})


def test_a_setting_that_the_environment_refuses_fails_before_a_session_opens():
    with pytest.raises(ValueError, match="size=1: expected"):
        FOREST.build(size=1)


def test_a_wrong_option_ends_the_program_with_one_line(capsys):
    with pytest.raises(SystemExit, match="2"):
        FOREST.main(["--size", "big", "--port", "0"])

    assert capsys.readouterr().err.splitlines()[-1].endswith("error: size='big': expected a whole number.")


def test_the_help_has_each_option_with_its_sentence_and_default_and_those_of_servers(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("FOREST_SIZE", "12")
    with pytest.raises(SystemExit, match="0"):
        FOREST.main(["--help"])

    printed = capsys.readouterr().out
    assert "Cut trees." in printed
    assert "second paragraph" not in printed
    for line in (
        "--size SIZE           Rows of the forest (default 12).",
        "--wind none|north     Where the wind comes from (default: drawn).",
        "--dry [true|false]    Let trees be dry (default false).",
        "--rules RULES         Other rules as a JSON object (default {}).",
        "--max-sessions MAX_SESSIONS",
    ):
        assert line in printed
    assert "--hidden" not in printed


def test_a_program_is_named_after_the_folder_that_has_its_server():
    assert EnvironmentProgram(EchoEnvironment).name == "echo_env"
    assert FOREST.name == "Forest"  # a class of a file


def test_a_program_can_be_sent_to_worker_processes():
    assert pickle.loads(pickle.dumps(FOREST)).settings({"FOREST_SIZE": "4"}).size == 4


@pytest.mark.process
def test_a_wrong_variable_ends_the_server_before_it_listens():
    command = [sys.executable, "-m", "openenv.envs.openspiel_env.server.app", "--port", "0"]
    variables = {**os.environ, "OPENSPIEL_AGENT_PLAYER": "first"}
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode != 0
    assert "agent_player='first': expected a whole number" in ended.stderr


def test_text_that_is_no_json_object_is_refused_with_an_example():
    with pytest.raises(ValueError, match=r"""settings='x' is not JSON: .* Write '{"size": 3}'"""):
        json_object("settings", "x")
