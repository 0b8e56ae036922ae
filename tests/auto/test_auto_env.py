"""Clients by the name of their environment: where their server comes from."""

import re
import urllib.request

import pytest

import openenv
from openenv import AutoAction, AutoEnv, GenericAction
from openenv.envs.echo_env import EchoEnv
from openenv.envs.openspiel_env import OpenSpielEnv
from openenv.hosting.local_process import LocalServer
from openenv.installation import install_line

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore:openenv_core")]


def is_up(base_url):
    try:
        with urllib.request.urlopen(f"{base_url}/health", timeout=2):
            return True
    except OSError:
        return False


def test_a_bundled_environment_is_served_locally_while_the_client_is_open():
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


def test_a_client_connects_to_a_base_url_with_its_arguments():
    headers = {"Authorization": "Bearer t"}
    with (
        LocalServer("openenv.envs.echo_env.server.app", env_vars={"OPENENV_TOKEN": "t"}) as server,
        AutoEnv.from_env("echo", base_url=server.base_url, headers=headers) as env,
        AutoEnv.from_hub("anything", server.base_url, skip_install=True, headers=headers) as generic,
    ):
        env.reset()
        generic.reset()

        assert (type(env), env.base_url) == (EchoEnv, server.base_url)
        assert generic.step(GenericAction(message="hi")).observation["echoed_message"] == "hi"


def test_skip_install_plays_a_bundled_environment_with_dictionaries():
    with AutoEnv.from_env("echo", skip_install=True) as env:
        env.reset()
        action = AutoAction.from_env("echo", skip_install=True)(message="hi")
        assert env.step(action).observation["echoed_message"] == "hi"


def test_a_docker_image_runs_while_the_client_is_open(containers, name_echo_image):
    name_echo_image("auto-echo:v2")
    with AutoEnv.from_env("echo", docker_image="auto-echo:v2", env_vars={"A": "b"}) as env:
        env.reset()
        assert isinstance(env, EchoEnv)
        (container,) = containers()

    assert container.name.startswith("auto-echo-")
    assert "A=b" in container.attrs["Config"]["Env"]
    assert containers() == []


def test_a_container_provider_runs_the_image_of_the_environment(containers):
    from openenv.hosting.runtime import LocalDockerProvider

    with AutoEnv.from_env("openspiel", container_provider=LocalDockerProvider()) as env:
        assert isinstance(env, OpenSpielEnv)
        env.connect()
        (container,) = containers()

    assert container.name.startswith("openspiel-env-")


def test_a_missing_extra_raises_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr("openenv.envs.catalog.CatalogEntry.is_installed", False)
    with pytest.raises(ImportError, match=re.escape(install_line("openspiel"))):
        AutoEnv.from_env("openspiel")


@pytest.mark.parametrize("cls", [AutoEnv, AutoAction])
def test_the_factories_have_no_instances(cls):
    with pytest.raises(TypeError, match=r"call Auto(Env|Action)\.from_env"):
        cls()


def test_make_vec_steps_many_environments_of_its_own_server():
    with openenv.make_vec("openspiel", 3, options={"game_name": "tic_tac_toe"}) as envs:
        observations, _ = envs.reset(seed=7)
        envs.step(observations["legal_actions"].argmax(axis=1))

        assert observations["info_state"].shape == (3, 27)


def test_make_vec_raises_for_a_wrong_number_of_sessions():
    with pytest.raises(ValueError, match="num_sessions=4"):
        openenv.make_vec("echo", 2, num_sessions=4)
