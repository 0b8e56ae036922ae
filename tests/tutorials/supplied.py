"""What the tutorials use and do not show. A test imports it into the kernel before the cells that use it."""

import json
import os
import subprocess
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

import openenv
from openenv.envs.openspiel_env import OpenSpielAction
from openenv.hosting.server_process import wait_until_healthy

PIPE = subprocess.PIPE


def checkout() -> str:
    """A folder whose `src` has the modules that a clone of the published repository has there."""
    source = Path("OpenEnv/src").absolute()
    source.mkdir(parents=True)
    package = Path(openenv.__file__).parent
    for entry in [*(package / "compat" / "path").iterdir(), package]:
        (source / entry.name).symlink_to(entry)
    return str(source.parent)


def Popen(command: list[str], env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Start a server and wait until it is healthy: the tutorial leaves the wait out."""
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    port = command[command.index("--port") + 1]
    wait_until_healthy(f"http://127.0.0.1:{port}", process, 60)
    return process


def catch_server(work_dir: str, port: int) -> "subprocess.Popen[bytes]":
    """The server of the game that the tutorial plays first, started as it starts the next one."""
    command = [sys.executable, "-m", "uvicorn", "envs.openspiel_env.server.app:app", "--port", str(port)]
    return Popen(command, {**os.environ, "PYTHONPATH": f"{work_dir}/src", "OPENSPIEL_GAME": "catch"})


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a server."""
    process.terminate()
    process.wait()


def run_episode(env: Any, policy: Any, visualize: bool = True) -> bool:
    """Whether a policy catches the ball."""
    result = env.reset()
    while not result.done:
        action_id = policy.select_action(result.observation)
        result = env.step(OpenSpielAction(action_id=action_id, game_name="catch"))
        if visualize:
            print(result.observation.info_state)
    return bool(result.reward > 0)


def loaded_cfg(path: str) -> Any:
    """A YAML file as the object with attributes that the tutorial calls cfg."""
    text = json.dumps(yaml.safe_load(Path(path).read_text()))
    return json.loads(text, object_hook=lambda mapping: types.SimpleNamespace(**mapping))


def save_cfg(cfg: Any, path: str) -> None:
    """Write such an object as YAML."""
    Path(path).write_text(json.dumps(cfg, default=vars))  # JSON is YAML


def become_server_module(namespace: dict[str, Any]) -> None:
    """Let the cells be the file server/app.py of an author's package, beside the environment that they have written."""
    for name in ("your_env", "your_env.server", "your_env.server.your_environment"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    vars(sys.modules["your_env.server.your_environment"])["YourEnvironment"] = namespace["YourEnvironment"]
    namespace["__package__"] = "your_env.server"
