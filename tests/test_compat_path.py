"""The modules that early tutorials import are other names of ours, where `openenv compat-path` is on PYTHONPATH."""

import os
import subprocess
import sys

import pytest

from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.hosting.server_process import ServerProcess, free_port

pytestmark = pytest.mark.process

NAMES = """
from core.env_server import Action, Environment, Observation, State, create_fastapi_app
from core.http_env_client import HTTPEnvClient
from core.types import StepResult
from envs.echo_env import EchoAction, EchoEnv
from envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from envs.openspiel_env.client import OpenSpielEnv as FromModule
from envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation, OpenSpielState
from grpo_utils import play_random_policy, setup_forge_training, show_openenv_observation
import envs.openspiel_env.server.app
import openenv.core.env_server, openenv.envs.openspiel_env.client, openenv.grpo_utils
print(
    FromModule is OpenSpielEnv is openenv.envs.openspiel_env.client.OpenSpielEnv,
    Action is openenv.core.env_server.Action,
    play_random_policy is openenv.grpo_utils.play_random_policy,
)
"""


@pytest.fixture(scope="module")
def environment():
    """The environment variables of a program that has the folder on PYTHONPATH."""
    command = [sys.executable, "-m", "openenv", "compat-path"]
    folder = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}


def test_the_names_of_the_tutorials_are_the_same_objects(environment):
    done = subprocess.run([sys.executable, "-c", NAMES], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "True True True", done.stderr


def test_a_module_that_does_not_exist_is_named(environment):
    command = [sys.executable, "-c", "import envs.no_such_env"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "No module named 'envs.no_such_env'" in done.stderr


@pytest.mark.parametrize(
    "program", [["envs.openspiel_env.server.app"], ["uvicorn", "envs.openspiel_env.server.app:app"]]
)
def test_a_server_is_started_as_the_tutorials_do(environment, program):
    port = free_port()
    variables = {**environment, "OPENSPIEL_GAME": "blackjack"}
    server = ServerProcess([sys.executable, "-m", *program, "--port", str(port)], f"http://127.0.0.1:{port}", variables)
    try:
        server.wait_until_healthy(60)
        with OpenSpielEnv(base_url=server.base_url) as env:
            assert env.reset().observation.legal_actions == [0, 1]
            assert env.step(OpenSpielAction(action_id=1)).done
    finally:
        server.stop()
