"""Environments of the Hub: a package of a Space is installed only where the user trusts it."""

import importlib.metadata
import os
import sys

import pytest

from openenv import AutoAction, AutoEnv, GenericEnvClient
from openenv.auto.auto_env import RemoteCodeRefused
from openenv.hosting.hub import Space
from tests.hosting import fake_tools

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore:openenv_core")]

SPACE = f"owner{os.getpid()}/maze"
"""A space of this process alone: other workers of pytest name their images in the same engine."""
IMAGE = f"registry.hf.space/{SPACE.replace('/', '-')}:latest"


@pytest.mark.parametrize("name", ["owner/maze", "https://huggingface.co/spaces/owner/maze"])
def test_a_space_is_not_installed_without_trust(name, site, tools, calls_of, monkeypatch):
    monkeypatch.delenv("OPENENV_TRUST_REMOTE_CODE", raising=False)
    for ask in (AutoEnv.from_env, AutoEnv.from_hub, AutoAction.from_env, AutoAction.from_hub):
        with pytest.raises(
            RemoteCodeRefused,
            match=r"install git\+https://huggingface.co/spaces/owner/maze(?s:.*)trust_remote_code=True(?s:.*)OPENENV_TRUST_REMOTE_CODE=1",
        ):
            ask(name)

    assert calls_of("uv") == []


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_a_trusted_space_is_installed_once_and_its_image_runs(
    by, site, tools, calls_of, containers, name_echo_image, no_running_space, monkeypatch
):
    name_echo_image(IMAGE)
    if by == "variable":
        monkeypatch.setenv("OPENENV_TRUST_REMOTE_CODE", "1")
    for _ in range(2):
        with AutoEnv.from_env(SPACE, trust_remote_code=by == "argument") as env:
            env.reset()
            action = AutoAction.from_env(SPACE, trust_remote_code=by == "argument")(message="left")
            assert env.step(action).observation["echoed_message"] == "left"
            assert type(env).__name__ == "MazeEnv"
            assert [container.name.rpartition("-")[0] for container in containers()] == [SPACE.replace("/", "-")]
    (install,) = calls_of("uv")

    assert install == ["pip", "install", "--python", sys.executable, f"git+https://huggingface.co/spaces/{SPACE}"]


@pytest.mark.parametrize("by_name", [AutoAction.from_env, AutoAction.from_hub], ids=["from_env", "from_hub"])
def test_the_action_class_of_a_trusted_space_is_installed(by_name, site, tools, calls_of):
    assert by_name("owner/maze", trust_remote_code=True).__module__.startswith("maze_env")
    assert len(calls_of("uv")) == 1


def test_a_space_that_is_not_installed_is_played_with_dictionaries(
    tools, calls_of, containers, name_echo_image, no_running_space
):
    name_echo_image(IMAGE)
    with AutoEnv.from_env(SPACE, skip_install=True) as env:
        env.reset()
        assert isinstance(env, GenericEnvClient)

    assert calls_of("uv") == []


def test_a_client_connects_to_a_running_space(running_space):
    env = AutoEnv.from_env("Open_Env/maze", skip_install=True)

    assert env.base_url == Space("Open_Env/maze").base_url == "https://open-env-maze.hf.space"


def test_pip_installs_where_uv_is_missing(site, tools, monkeypatch, tmp_path):
    (tmp_path / "bin" / "uv").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} {fake_tools.__file__} uv pip "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr("openenv.auto.auto_env.sys.executable", str(python))

    assert "maze" not in {d.metadata["Name"] for d in importlib.metadata.distributions(path=[str(site)])}
    client = AutoEnv.from_env("owner/maze", base_url="http://127.0.0.1:9", trust_remote_code=True)
    assert type(client).__name__ == "MazeEnv"
    assert fake_tools.calls(tmp_path, "uv") == [["pip", "install", "git+https://huggingface.co/spaces/owner/maze"]]
    assert os.listdir(site)
