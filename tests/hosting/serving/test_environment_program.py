"""One class gives the program and the application of an environment; a settings class gives the options of both."""

import argparse
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from openenv.core.env_server import Action, Environment, Observation, State
from openenv.core.generic_client import GenericEnvClient
from openenv.envs.echo_env.server.environment import EchoEnvironment
from openenv.hosting.serving.environment_program import EnvironmentProgram
from openenv.hosting.serving.settings import json_object, option

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


@dataclass(frozen=True, kw_only=True)
class ManySettings:
    names: list[str] = option(["p", "q"], "Names")
    sizes: tuple[int, ...] = option((3, 4), "Sizes")
    version: str = option("1.0", "A version")
    is_wet: bool | None = option(None, "Whether it rains")
    level: Literal[1, 2] = option(1, "A level")
    chance: int | float = option(0.5, "A chance")
    folder: Path = option(Path("data"), "A folder")


class ManyEnvironment(Forest):
    def __init__(self, **fields: Any) -> None:
        super().__init__(2, 0.0, **fields)


MANY = EnvironmentProgram(ManyEnvironment, ManySettings)


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("names", "a, b", ["a", "b"]),
        ("sizes", "5,6", (5, 6)),
        ("version", "v2.0", "v2.0"),
        ("is_wet", "false", False),
        ("level", "2", 2),
        ("chance", "1.5", 1.5),
        ("chance", "2", 2),
        ("folder", "/srv", Path("/srv")),
    ],
)
def test_each_annotation_that_an_option_may_have_is_read_as_its_type(field, text, value):
    option_of_field = next(each for each in MANY.options if each.field == field)
    found = option_of_field.value(text)

    assert (found, type(found)) == (value, type(value))


def test_options_that_are_not_given_have_their_defaults_whatever_these_look_like():
    parser = argparse.ArgumentParser()
    for each in MANY.options:
        each.add_to(parser, {})

    assert set(vars(parser.parse_args([])).values()) == {None}
    assert MANY.settings({}) == ManySettings()


def test_an_annotation_that_no_text_is_read_as_is_refused_with_its_field():
    @dataclass(frozen=True, kw_only=True)
    class Odd:
        forest: Forest | None = option(None, "A forest")

    with pytest.raises(TypeError, match="option forest: no text is read as"):
        EnvironmentProgram(Forest, Odd).settings({})


def test_settings_of_an_environment_without_any_are_refused_by_name():
    with pytest.raises(TypeError, match=r"size: .* has no settings"):
        EnvironmentProgram(EchoEnvironment).build(size=3)


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
        json_object("settings", "x", '{"size": 3}')
