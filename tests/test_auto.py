"""Environments by name: bundled, installed, or at the Hub; whose code runs is the user's decision."""

import importlib.metadata
import os
import sys
import urllib.request

import pytest

from openenv import AutoAction, AutoEnv, EnvClient, GenericAction, GenericEnvClient
from openenv.auto import auto_env
from openenv.auto.installation import RemoteCodeRefused
from openenv.core.containers.hub import Space
from openenv.core.containers.local_process import LocalServer
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from tests.core.containers import fake_tools

pytestmark = pytest.mark.filterwarnings("ignore:openenv_core")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages, forgotten after the test."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in [name for name in sys.modules if name.startswith("maze_env")]:
        del sys.modules[name]


@pytest.fixture
def hub_is_away(monkeypatch):
    """No Space runs at the Hub: there is no network in a test."""
    monkeypatch.setattr(auto_env, "_runs", lambda space: False)


def is_up(base_url):
    try:
        with urllib.request.urlopen(f"{base_url}/health", timeout=2):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("name", ["echo", "echo-env", "echo_env", "Echo"])
def test_a_bundled_environment_has_one_name_in_many_spellings(name):
    assert AutoEnv.get_env_class(name) is EchoEnv
    assert AutoAction.from_env(name) is EchoAction
    assert AutoAction.from_hub(name) is EchoAction


def test_a_bundled_environment_is_served_here_for_as_long_as_the_client_is_open():
    with AutoEnv.from_env("echo") as env:
        env.reset()
        action = AutoAction.from_env("echo")(message="hello")
        assert env.step(action).observation.echoed_message == "hello"
        base_url = env.base_url
        assert isinstance(env, EchoEnv)

    assert not is_up(base_url)


async def test_a_bundled_environment_is_played_asynchronously():
    async with AutoEnv.from_env("echo", env_vars={"OPENENV_TOKEN": "t"}, headers={"Authorization": "Bearer t"}) as env:
        assert (await env.reset()).observation.echoed_message
        base_url = env.base_url

    assert not is_up(base_url)


def test_a_base_url_is_connected_to():
    with (
        LocalServer("openenv.envs.echo_env.server.app") as server,
        AutoEnv.from_env("echo", base_url=server.base_url, message_timeout_s=7) as env,
        AutoEnv.from_hub("anything", server.base_url, skip_install=True) as generic,
    ):
        env.reset()
        generic.reset()

        assert (type(env), env.base_url, env._message_timeout_s) == (EchoEnv, server.base_url, 7)
        assert generic.step(GenericAction(message="hi")).observation["echoed_message"] == "hi"


def test_without_installation_a_bundled_environment_is_played_with_dictionaries():
    with AutoEnv.from_env("echo", skip_install=True) as env:
        env.reset()
        action = AutoAction.from_env("echo", skip_install=True)(message="hi")
        assert env.step(action).observation["echoed_message"] == "hi"


def test_a_docker_image_is_run_for_it(tools, calls_of):
    with AutoEnv.from_env("echo", docker_image="my-echo:v2", env_vars={"A": "b"}) as env:
        env.reset()
        assert isinstance(env, EchoEnv)

    run = next(args for args in calls_of("docker") if args[0] == "run")
    assert run[-1] == "my-echo:v2"
    assert "--env=A=b" in run


def test_a_container_provider_runs_the_environments_own_image(tools, calls_of):
    from openenv.core.containers.runtime import LocalDockerProvider

    with AutoEnv.from_env("openspiel", container_provider=LocalDockerProvider()) as env:
        assert isinstance(env, OpenSpielEnv)
        env.connect()

    assert next(args for args in calls_of("docker") if args[0] == "run")[-1] == "openspiel-env:latest"


@pytest.mark.parametrize("error", [ValueError, LookupError])
@pytest.mark.parametrize("ask", [AutoEnv.from_env, AutoEnv.get_env_info, AutoAction.from_env])
def test_an_unknown_name_is_told_what_there_is_and_what_was_meant(ask, error):
    with pytest.raises(
        error, match=r"environment 'openspeil' is not among echo, .*openspiel\. Did you mean 'openspiel'"
    ):
        ask("openspeil")


def test_what_must_be_installed_first_is_named(monkeypatch):
    monkeypatch.setattr("openenv.envs.catalog.CatalogEntry.is_installed", False)
    with pytest.raises(ImportError, match=r"pip install 'openenv-rl\[openspiel\]'"):
        AutoEnv.from_env("openspiel")


def test_an_installed_package_written_for_the_published_one_is_found_and_played(site, tools):
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


def test_a_broken_package_hides_no_other(site, caplog):
    fake_tools.make_package(site, "maze", manifest=": [")
    assert AutoEnv.get_env_class("echo") is EchoEnv
    assert "left out openenv-maze" in caplog.text


def test_a_package_that_cannot_be_imported_says_how_to_mend_it(site):
    fake_tools.make_package(site, "maze")
    (site / "maze_env" / "client.py").write_text("import nothing_like_it")
    with pytest.raises(ImportError, match=r"nothing_like_it(?s:.*)force-reinstall openenv-maze"):
        AutoEnv.get_env_class("maze")
    AutoAction.list_actions()


def test_what_is_known_is_listed(capsys):
    AutoEnv.list_environments()
    AutoAction.list_actions()
    printed = capsys.readouterr().out

    assert "Says back what it hears" in printed
    assert "OpenSpielAction" in printed
    assert AutoEnv.get_env_info("openspiel")["action_class"] == OpenSpielAction.__name__


@pytest.mark.parametrize("name", ["owner/maze", "https://huggingface.co/spaces/owner/maze"])
def test_code_of_a_space_is_not_installed_unasked(name, site, tools, calls_of, monkeypatch):
    monkeypatch.delenv("OPENENV_TRUST_REMOTE_CODE", raising=False)
    for ask in (AutoEnv.from_env, AutoAction.from_env):
        with pytest.raises(RemoteCodeRefused, match=r"trust_remote_code=True(?s:.*)OPENENV_TRUST_REMOTE_CODE=1"):
            ask(name)

    assert calls_of("uv") == []


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_a_space_that_is_trusted_is_installed_once_and_its_image_played(
    by, site, tools, calls_of, hub_is_away, monkeypatch
):
    if by == "variable":
        monkeypatch.setenv("OPENENV_TRUST_REMOTE_CODE", "1")
    for _ in range(2):
        with AutoEnv.from_env("owner/maze", trust_remote_code=by == "argument") as env:
            env.reset()
            action = AutoAction.from_env("owner/maze")(message="left")
            assert env.step(action).observation["echoed_message"] == "left"
            assert type(env).__name__ == "MazeEnv"
    (install,) = calls_of("uv")

    assert install == ["pip", "install", "--python", sys.executable, "git+https://huggingface.co/spaces/owner/maze"]
    images = [args[-1] for args in calls_of("docker") if args[0] == "run"]
    assert images == ["registry.hf.space/owner-maze:latest"] * 2


def test_a_space_that_is_not_installed_is_played_with_dictionaries(tools, calls_of, hub_is_away):
    with AutoEnv.from_env("owner/maze", skip_install=True) as env:
        env.reset()
        assert isinstance(env, GenericEnvClient)

    assert calls_of("uv") == []


def test_a_space_that_runs_is_connected_to(monkeypatch):
    monkeypatch.setattr(auto_env, "_runs", lambda space: True)
    env = AutoEnv.from_env("Open_Env/maze", skip_install=True)

    assert env.base_url == Space("Open_Env/maze").base_url == "https://open-env-maze.hf.space"


def test_without_uv_pip_installs(site, tools, monkeypatch, tmp_path):
    (tmp_path / "bin" / "uv").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} {fake_tools.__file__} uv pip "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr("openenv.auto.installation.sys.executable", str(python))

    assert "maze" not in {d.metadata["Name"] for d in importlib.metadata.distributions(path=[str(site)])}
    client = AutoEnv.from_env("owner/maze", base_url="http://127.0.0.1:9", trust_remote_code=True)
    assert type(client).__name__ == "MazeEnv"
    assert fake_tools.calls(tmp_path, "uv") == [["pip", "install", "git+https://huggingface.co/spaces/owner/maze"]]
    assert os.listdir(site)


@pytest.mark.parametrize("cls", [AutoEnv, AutoAction])
def test_the_factories_are_not_made_themselves(cls):
    with pytest.raises(TypeError, match=r"call Auto(Env|Action)\.from_env"):
        cls()
