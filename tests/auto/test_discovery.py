"""Names of environments: bundled ones and those of installed packages."""

import pytest

from openenv import AutoAction, AutoEnv, EnvClient
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.envs.openspiel_env import OpenSpielAction
from tests.hosting import fake_tools

pytestmark = pytest.mark.filterwarnings("ignore:openenv_core")


def test_an_installed_package_written_for_the_published_one_is_found_and_played(site, containers, name_echo_image):
    name_echo_image("maze-env:latest")
    fake_tools.make_package(site, "maze")
    with AutoEnv.from_env("maze") as env:
        env.reset()
        result = env.step(AutoAction.from_env("maze-env")(message="left"))
        assert isinstance(env, EnvClient)
        assert result.observation["echoed_message"] == "left"
        assert env.state().step_count == 1

    info = AutoEnv.get_env_info("maze")
    assert (info["name"], info["package"], info["version"]) == ("maze_env", "openenv-maze", "0.3")
    assert (info["env_class"], info["action_class"], info["module"]) == ("MazeEnv", "MazeAction", "maze_env.client")
    assert (info["default_image"], info["spec_version"]) == ("maze-env:latest", 1)
    assert AutoAction.get_action_info("maze")["action_class"] == "MazeAction"


@pytest.mark.parametrize("error", [ValueError, LookupError])
@pytest.mark.parametrize("ask", [AutoEnv.from_env, AutoEnv.get_env_info, AutoAction.from_env])
def test_an_unknown_name_raises_with_the_known_ones_and_the_nearest(ask, error):
    with pytest.raises(
        error, match=r"environment 'openspeil' is not among .*echo, .*openspiel.*\. Did you mean 'openspiel'"
    ):
        ask("openspeil")


def test_a_package_that_cannot_be_imported_raises_with_the_remedy(site):
    fake_tools.make_package(site, "maze")
    (site / "maze_env" / "client.py").write_text("import nothing_like_it")
    with pytest.raises(ImportError, match=r"nothing_like_it(?s:.*)force-reinstall openenv-maze"):
        AutoEnv.get_env_class("maze")
    AutoAction.list_actions()


def test_environments_and_actions_are_listed(capsys):
    AutoEnv.list_environments()
    AutoAction.list_actions()
    printed = capsys.readouterr().out

    assert "Returns the message it receives" in printed
    assert "OpenSpielAction" in printed
    assert AutoEnv.get_env_info("openspiel")["action_class"] == OpenSpielAction.__name__


@pytest.mark.parametrize("name", ["echo", "echo-env", "echo_env", "Echo"])
def test_a_bundled_environment_has_several_spellings(name):
    assert AutoEnv.get_env_class(name) is EchoEnv
    assert AutoAction.from_env(name) is EchoAction
    assert AutoAction.from_hub(name) is EchoAction


def test_a_broken_package_is_skipped_with_a_warning(site, caplog):
    fake_tools.make_package(site, "maze", manifest=": [")
    assert AutoEnv.get_env_class("echo") is EchoEnv
    assert "skipped openenv-maze" in caplog.text


@pytest.mark.finding("an environment of any name is played to its end, and the fields of an action are an action")
@pytest.mark.parametrize("name", ["adventure:Adventure", "http://localhost:8000", "docker:adventure"])
def test_the_action_of_an_environment_whose_server_alone_knows_its_class_is_its_fields(name: str) -> None:
    assert AutoAction.from_env(name)(command="go north") == {"command": "go north"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("adventure.py", r"'adventure.py' names no class: write adventure.py:CLASS"),
        ("./nowhere", r"nowhere has no openenv.yaml: give an environment's folder"),
        ("/nowhere/env", r"/nowhere/env has no openenv.yaml"),
        ("nowhere/adventure.py:Adventure", r"there is no file nowhere/adventure.py"),
        ("nowhere/", r"nowhere has no openenv.yaml"),
        ("C:\\nowhere", r"has no openenv.yaml"),
    ],
)
@pytest.mark.finding("what is not there or not read is an error with the next step")
def test_a_name_of_something_that_is_not_there_is_an_error_with_the_next_step(name: str, message: str) -> None:
    with pytest.raises(LookupError, match=message):
        AutoEnv.from_env(name)


def test_an_address_without_its_scheme_is_an_error_with_the_whole_url() -> None:
    with pytest.raises(ValueError, match="as http://localhost:8000 does"):
        AutoEnv.from_env("localhost:8000")
