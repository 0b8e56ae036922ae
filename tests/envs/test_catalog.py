"""The catalog lists the bundled environments and reads their manifests."""

from pathlib import Path

import pytest

from openenv.envs.catalog import entries, game_keyword, load, read_manifest


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
