"""Client, server, evaluation and training run where Unix's and Linux's own modules, calls and files are missing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from openenv.core.errors import ContainerFault
from openenv.hosting.local_process import LocalServer
from openenv.hosting.sandbox import sandbox
from openenv.hosting.sandbox.sandbox import SandboxHost

pytestmark = pytest.mark.process

HERE = Path(__file__).parent
TRAINING = """
name: short
env: {name: openspiel, reset: {game_name: tic_tac_toe}}
pretrain: {max_episodes: 40, steps: 4}
trainer: {training: {steps: 2}}
group_size: 2
evaluation: {num_games: 10}
"""


def python(*arguments: str, cwd: Path) -> str:
    """The output of a Python program that starts without them."""
    path = os.pathsep.join([str(HERE), *sys.path])
    ended = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def openenv(*arguments: str, cwd: Path) -> str:
    return python("-m", "openenv", *arguments, cwd=cwd)


def test_they_are_missing(tmp_path: Path) -> None:
    program = "import os, signal; assert not hasattr(os, 'fork') and not hasattr(signal, 'SIGALRM'); open('/proc/stat')"

    with pytest.raises(AssertionError, match="No such file or directory"):
        python("-c", program, cwd=tmp_path)


@pytest.mark.finding("proxies, other locales and systems without what Linux alone has do no harm")
def test_every_command_is_there(tmp_path: Path) -> None:
    program = (
        "import importlib, pkgutil, openenv.cli\n"
        "modules = pkgutil.walk_packages(openenv.cli.__path__, 'openenv.cli.')\n"
        "for module in modules: importlib.import_module(module.name)"
    )

    python("-c", program, cwd=tmp_path)
    assert "serve" in openenv("--help", cwd=tmp_path)


def test_the_integration_of_trl_is_imported_before_its_trainer_is(tmp_path: Path) -> None:
    program = "import sys, openenv.integrations.trl; assert not {'torch', 'transformers'} & set(sys.modules)"

    python("-c", program, cwd=tmp_path)


def test_a_served_game_is_played_and_evaluated(tmp_path: Path) -> None:
    command = ("eval", "openspiel", "--game", "tic_tac_toe", "--episodes", "10", "--json")

    (player,) = json.loads(openenv(*command, cwd=tmp_path))

    assert (player["num_episodes"], player["num_invalid"]) == (10, 0)


@pytest.mark.finding("proxies, other locales and systems without what Linux alone has do no harm")
def test_a_short_run_trains(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(TRAINING)

    openenv("train", "short.yaml", cwd=tmp_path)

    rows = (tmp_path / "runs" / "short" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["step"] for row in rows] == [1, 2]


def test_an_environment_in_processes_of_its_own_needs_forks(tmp_path: Path) -> None:
    program = (
        "import asyncio\n"
        "from openenv.core.env_server.execution.fork_server import ForkServer\n"
        "from openenv.core.env_server.runner.env_spec import resolve_env_spec\n"
        "from openenv.envs.echo_env.server.environment import EchoEnvironment\n"
        "asyncio.run(ForkServer(resolve_env_spec(EchoEnvironment)).start())"
    )

    with pytest.raises(AssertionError, match="execution = 'process' needs forks, which linux does not have"):
        python("-c", program, cwd=tmp_path)


def test_a_sandbox_names_the_system_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.sys, "platform", "win32")

    with pytest.raises(ContainerFault, match="sandboxes need Linux, this is win32"):
        SandboxHost()


def test_a_server_keeps_its_output_where_no_open_file_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "name", "nt")
    server = LocalServer("openenv.envs.echo_env.server.app")
    monkeypatch.undo()
    with server:
        assert server.output().startswith("serving echo_env at ") or server.output() == ""
