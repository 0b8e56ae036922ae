"""The catalog lists the bundled environments and reads their manifests."""

from dataclasses import replace
from pathlib import Path

import pytest

from openenv.core.env_server.interfaces import Environment
from openenv.envs.catalog import entries, entry_of, game_keyword, load, read_manifest
from openenv.envs.snake_env import SnakeObservation
from tests.envs import record_readme


def test_entries_name_the_classes_of_an_environment() -> None:
    by_name = {entry.name: entry for entry in entries()}

    assert by_name["echo"].client == "openenv.envs.echo_env.client:EchoEnv"
    assert by_name["echo"].text == "openenv.envs.echo_env.text:EchoText"
    assert by_name["openspiel"].extra == "openspiel"
    assert by_name["atari"].server == "openenv.envs.atari_env.server.app"


@pytest.mark.parametrize("name", ["openspiel", "openspiel_env", "openspiel-env"])
def test_an_environment_loads_by_any_spelling_of_its_name(name: str) -> None:
    assert load(name).name == "openspiel"


def test_an_unknown_name_raises_with_the_nearest_one() -> None:
    names = ", ".join(entry.name for entry in entries())
    with pytest.raises(LookupError, match=rf"'openspeil' is not among {names}\. Did you mean 'openspiel'"):
        load("openspeil")


@pytest.mark.parametrize(("text", "message"), [(": [", "is not YAML"), ("- a", "must be a mapping")])
def test_a_manifest_that_is_no_mapping_raises(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "openenv.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_manifest(path)


@pytest.mark.parametrize(
    ("environment", "keyword"),
    [("openspiel", "game_name"), ("gymnasium_env", "env_id"), ("cards", "game"), ("game.py:Game", "game_name")],
)
def test_a_game_is_chosen_by_the_keyword_of_its_environment(environment: str, keyword: str) -> None:
    assert game_keyword(environment) == keyword


def test_no_keyword_chooses_a_game_where_there_is_one_only() -> None:
    assert game_keyword("snake") is None


def test_the_readme_lists_every_environment_as_its_manifest_describes_it() -> None:
    assert record_readme.recorded() == record_readme.table(), "run python -m tests.envs.record_readme"


def test_a_measured_task_has_the_reset_keywords_of_the_task_of_its_name() -> None:
    snake, openspiel = load("snake").load_measured(), load("openspiel").load_measured()

    assert snake["small"].reset == load("snake").load_tasks()["small"] == {"size": 6}
    assert (snake["small"].num_episodes, snake["small"].best_return) == (300, None)
    assert openspiel["catch"].best_return == 1.0  # declared once, for reports of training too


def test_a_measured_task_whose_package_is_missing_is_left_out() -> None:
    entry = replace(load("snake"), measured={"large": {}, "huge": {}, "own": {"reset": {"size": 9}}})

    assert list(entry.load_measured()) == ["large", "own"]


def test_an_environment_declares_what_reports_compare_with() -> None:
    openspiel = load("openspiel")
    catch, altered = {"game_name": "catch"}, {"game_name": "catch", "game_params": {"columns": 7}}

    assert (openspiel.load_baseline(catch), openspiel.load_baseline(altered)) == ("smart", None)
    assert openspiel.load_optimum(catch) is not None
    assert openspiel.load_optimum({"game_name": "tic_tac_toe", "opponent_policy": "mcts"}) is None
    assert (load("snake").load_baseline({}), load("snake").load_optimum({})) == (None, None)


def test_a_message_class_leads_to_its_environment() -> None:
    entry = entry_of(SnakeObservation)

    assert entry is not None
    assert entry.name == "snake"
    assert entry_of(Environment) is None


def test_an_environment_is_made_in_this_process_as_its_server_makes_it() -> None:
    assert type(load("snake").load_environment()).__name__ == "SnakeEnvironment"


def test_no_two_environments_declare_a_policy_of_one_name() -> None:
    names = [name for entry in entries() for name in entry.policies]

    assert sorted(set(names)) == sorted(names)
