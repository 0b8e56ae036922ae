"""What users import: pinned, and light."""

import subprocess
import sys

import openenv
import openenv.core

PUBLIC = {
    "Action", "AutoAction", "AutoEnv", "EnvClient", "Environment", "GenericAction", "GenericEnvClient", "Observation",
    "OpenEnvError", "ServerConfig", "State", "StepResult", "SyncEnvClient", "TextInterface", "create_app", "make_vec",
    "serve",
}  # fmt: skip
SERVER_SIDE = {"fastapi", "starlette", "uvicorn"}
HEAVY = {"torch", "numpy", "gymnasium", "pyspiel", "transformers", "matplotlib", "httpx", "rich", "yaml"}


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(m.split('.')[0] for m in sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_the_public_names_are_these_and_no_others():
    assert set(openenv.__all__) == PUBLIC
    assert all(hasattr(openenv, name) for name in PUBLIC)
    assert set(openenv.core.__all__) <= PUBLIC


def test_importing_the_library_loads_neither_a_server_nor_a_heavy_library():
    assert not modules_after("import openenv") & (SERVER_SIDE | HEAVY)


def test_importing_a_typed_client_does_not_either():
    assert not modules_after("from openenv.envs.openspiel_env import OpenSpielEnv") & (SERVER_SIDE | HEAVY)
