"""What users import: pinned, and light."""

import importlib.metadata
import subprocess
import sys
from typing import get_type_hints

import pytest

import openenv
import openenv.core
from openenv.core.env_server import create_app
from openenv.core.env_server.types import ServerMode
from openenv.core.generic_client import GenericAction, GenericEnvClient
from openenv.core.rubric import Rubric
from tests.core.counting_env import CountingEnvironment

PUBLIC = {
    "Action", "AutoAction", "AutoEnv", "EnvClient", "Environment", "EnvironmentProgram", "GenericAction",
    "GenericEnvClient", "Observation",
    "OpenEnvError", "ServerConfig", "State", "StepResult", "SyncEnvClient", "TextInterface", "create_app", "make_vec",
    "serve",
}  # fmt: skip
SERVER_SIDE = {"fastapi", "starlette", "uvicorn"}
HEAVY = {"torch", "numpy", "gymnasium", "pyspiel", "transformers", "matplotlib", "httpx", "rich", "yaml", "fastmcp"}


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(m.split('.')[0] for m in sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_the_public_names_are_these_and_no_others():
    assert set(openenv.__all__) == PUBLIC
    assert all(hasattr(openenv, name) for name in PUBLIC)
    assert all(hasattr(openenv.core, name) for name in openenv.core.__all__)


def test_names_that_are_imported_at_their_first_use_are_listed_and_importable():
    code = "import openenv; print('AutoEnv' in dir(openenv), openenv.auto.AutoEnv is openenv.AutoEnv)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "True True\n"
    assert {"LLMClient", "create_web_interface_app"} <= set(dir(openenv.core))


def test_the_annotations_of_an_environment_can_be_read():
    assert get_type_hints(CountingEnvironment)["rubric"] == Rubric | None


def test_a_client_loads_no_container_and_no_page():
    code = (
        "import sys; from openenv.core import EnvClient; print(*(m for m in sys.modules if m.startswith('openenv.')))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if name.split(".")[1] in ("agents", "envs", "hosting", "rubrics", "web")] == []


def test_importing_the_library_loads_neither_a_server_nor_a_heavy_library():
    assert not modules_after("import openenv") & (SERVER_SIDE | HEAVY)


def test_importing_a_typed_client_does_not_either():
    assert not modules_after("from openenv.envs.openspiel_env import OpenSpielEnv") & (SERVER_SIDE | HEAVY)


@pytest.mark.finding("every public name of the published package exists here")
def test_importing_the_servers_names_loads_no_server_either():
    modules = modules_after("from openenv.core.env_server import MCPEnvironment, WebInterfaceManager, HTTPEnvServer")

    assert not modules & (SERVER_SIDE | HEAVY)


@pytest.mark.finding("importing openenv.__main__ runs nothing, and errors have the published words")
def test_the_package_knows_its_version():
    assert openenv.__version__ == importlib.metadata.version("openenv-rl")


@pytest.mark.finding("importing openenv.__main__ runs nothing, and errors have the published words")
def test_importing_the_main_module_runs_nothing():
    code = "import sys; sys.argv = ['openenv', 'envs']; import openenv.__main__; print('imported')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "imported\n"


@pytest.mark.finding("importing openenv.__main__ runs nothing, and errors have the published words")
@pytest.mark.parametrize("start", [ServerMode, lambda mode: create_app(CountingEnvironment, mode=mode)])
def test_an_unknown_mode_is_refused_with_the_modes_that_there_are(start):
    with pytest.raises(ValueError, match=r"mode='prod': must be one of 'simulation', 'production'"):
        start("prod")


@pytest.mark.finding("importing openenv.__main__ runs nothing, and errors have the published words")
def test_a_servers_mode_may_be_written_in_capitals_and_come_from_an_environment_variable(monkeypatch):
    def is_simulation(**mode: str) -> bool:
        return "/step" in {route.path for route in create_app(CountingEnvironment, **mode).routes}

    assert not is_simulation(mode="Production")
    monkeypatch.setenv("OPENENV_MODE", "Production")
    assert not is_simulation()
    assert is_simulation(mode="simulation")
    monkeypatch.setenv("OPENENV_MODE", "prod")
    with pytest.raises(ValueError, match="mode='prod'"):
        create_app(CountingEnvironment)


@pytest.mark.finding("importing openenv.__main__ runs nothing, and errors have the published words")
def test_a_clients_mode_may_come_from_an_environment_variable(monkeypatch):
    monkeypatch.setenv("OPENENV_CLIENT_MODE", "prod")
    with pytest.raises(ValueError, match="OPENENV_CLIENT_MODE='prod': must be one of 'simulation', 'production'"):
        GenericEnvClient("http://localhost:8000")
    assert GenericEnvClient("http://localhost:8000", mode="Production").base_url == "http://localhost:8000"


@pytest.mark.finding("importing openenv.__main__ runs nothing, and errors have the published words")
def test_every_route_of_an_application_has_a_path():
    paths = {route.path for route in create_app(CountingEnvironment).routes}

    assert {"/ws", "/reset", "/step", "/state", "/mcp", "/list_environments", "/{name}/tasks"} <= paths


@pytest.mark.finding("importing openenv.__main__ runs nothing, and errors have the published words")
def test_a_generic_action_shows_its_name():
    assert repr(GenericAction(code="x=1", n=2)) == "GenericAction(code='x=1', n=2)"
