"""`openenv serve` serves applications, environments and factories of both, by name or in a folder."""

import signal
import subprocess
from contextlib import contextmanager

import httpx
import pytest

from openenv.core.errors import CapacityReached
from openenv.core.generic_client import GenericEnvClient
from openenv.hosting.server_process import wait_until_healthy
from tests.cli.commands import OPENENV, run

pytestmark = [
    pytest.mark.process,
    pytest.mark.finding("`openenv serve` serves classes, factories, applications and folders"),
]

ENVIRONMENT = """
from openenv.core.env_server import create_app
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core import Action, Environment, Observation, State

class Say(Action):
    text: str

class Reply(Observation):
    text: str

class Parrot(Environment[Say, Reply, State]):
    def reset(self, seed=None, episode_id=None) -> Reply:
        return Reply(text="")

    def step(self, action: Say, timeout_s=None) -> Reply:
        return Reply(text=action.text * 2)

    @property
    def state(self) -> State:
        return State()
"""
TARGETS = {
    "class": "from environment import Parrot as target",
    "instance": "from environment import Parrot\ntarget = Parrot()",
    "annotated factory": "from environment import Parrot\ndef target() -> Parrot:\n    return Parrot()",
    "factory": "from environment import Parrot\ndef target():\n    return Parrot()",
    "lambda": "from environment import Parrot\ntarget = lambda: Parrot()",
    "application": "from environment import *\ntarget = create_app(Parrot)",
    "application factory": (
        "from environment import *\n"
        "def target(limit=None):\n    return create_app(Parrot, Say, Reply, max_concurrent_envs=limit)"
    ),
    "middleware around ours": (
        "from environment import *\nfrom starlette.middleware.gzip import GZipMiddleware\n"
        "target = GZipMiddleware(create_app(Parrot))"
    ),
    "application around ours": (
        "from environment import *\nfrom fastapi import FastAPI\n"
        "target = FastAPI()\nHTTPEnvServer(Parrot).register_routes(target)"
    ),
}


@contextmanager
def served(port, folder, *args):
    """The base URL of `openenv serve` with these arguments, run in a folder."""
    command = [*OPENENV, "serve", *args, "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=folder)
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=60)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert b"Traceback" not in errors


def doubled(url: str) -> str:
    with GenericEnvClient(base_url=url) as env:
        env.reset()
        return env.step({"text": "ha"}).observation["text"]


@pytest.mark.parametrize("kind", TARGETS)
def test_a_name_in_a_module_is_served_whatever_it_stands_for(port, tmp_path, kind):
    (tmp_path / "environment.py").write_text(ENVIRONMENT)
    (tmp_path / "served.py").write_text(TARGETS[kind])
    with served(port, tmp_path, "served:target") as url:
        assert doubled(url) == "haha"


@pytest.mark.parametrize("kind", ["class", "factory"])
def test_an_environment_that_is_served_by_its_name_takes_limits_and_workers(port, tmp_path, kind):
    (tmp_path / "environment.py").write_text(ENVIRONMENT)
    (tmp_path / "served.py").write_text(TARGETS[kind])
    with (
        served(port, tmp_path, "served:target", "--max-sessions", "2", "--workers", "2") as url,
        GenericEnvClient(base_url=url) as first,
        GenericEnvClient(base_url=url) as second,
    ):
        first.reset()
        second.reset()
        with pytest.raises(CapacityReached, match="2/2"):
            GenericEnvClient(base_url=url).reset()


@pytest.mark.parametrize("kind", ["class", "factory"])
def test_the_token_of_the_program_guards_an_environment_that_is_served_by_its_name(port, tmp_path, monkeypatch, kind):
    monkeypatch.setenv("OPENENV_TOKEN", "s3cret")
    (tmp_path / "environment.py").write_text(ENVIRONMENT)
    (tmp_path / "served.py").write_text(TARGETS[kind])
    with served(port, tmp_path, "served:target") as url:
        assert httpx.get(f"{url}/state").status_code == 401


@pytest.mark.parametrize("imports", ["environment", "my_env.environment", "..environment"])
@pytest.mark.parametrize("argument", ["my_env", "{folder}", "."])
def test_a_folder_with_a_manifest_is_served(port, tmp_path, argument, imports):
    folder = tmp_path / "my_env"
    (folder / "server").mkdir(parents=True)
    (folder / "openenv.yaml").write_text("spec_version: 1\nname: my_env\napp: server.main:application\n")
    (folder / "environment.py").write_text(ENVIRONMENT)
    (folder / "server" / "main.py").write_text(f"from {imports} import *\napplication = create_app(Parrot)")
    with served(port, folder if argument == "." else tmp_path, argument.format(folder=folder)) as url:
        assert doubled(url) == "haha"


def test_the_manifest_may_name_an_environment_class(port, tmp_path):
    (tmp_path / "openenv.yaml").write_text("name: parrot\napp: environment:Parrot\n")
    (tmp_path / "environment.py").write_text(ENVIRONMENT)
    with served(port, tmp_path.parent, f"./{tmp_path.name}", "--max-sessions", "1") as url:
        assert doubled(url) == "haha"


def test_an_image_is_served_in_a_container_until_interrupted(port, tmp_path, engine, name_echo_image):
    def started():
        return engine.containers.list(all=True, filters={"name": "my-echo-"}, ignore_removed=True)

    name_echo_image("my-echo:v2")
    with served(port, tmp_path, "docker:my-echo:v2") as url, GenericEnvClient(base_url=url) as env:
        env.reset()
        assert env.step({"message": "hello"}).observation["echoed_message"] == "hello"
        assert len(started()) == 1

    assert started() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["docker:my-echo:v2", "--workers", "2"], "only --port can be set here"),
        (["docker:my-echo:v2", "--game", "chess"], "docker run --env NAME=VALUE"),
        (["http://localhost:8000"], "is a server that runs already"),
        (["echo", "--port", "99999"], "error: port=99999: give 1 to 65535, or 0 for a free one"),
        (["game.py"], "openenv: 'game.py' names no class: write game.py:CLASS"),
    ],
)
def test_what_cannot_be_served_is_an_error_with_the_remedy(arguments, message):
    refused = run("serve", *arguments)

    assert refused.returncode != 0
    assert message in refused.stderr
