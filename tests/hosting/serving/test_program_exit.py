"""A server ends with what environment code has left running in its process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from openenv.core.generic_client import GenericEnvClient
from openenv.hosting.server_process import free_port, wait_until_ready

pytestmark = [pytest.mark.process, pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")]

ENVIRONMENT = """
import subprocess

from openenv import Action, Environment, Observation, State


class Started(Observation):
    pid: int


class Starts(Environment[Action, Started, State]):
    execution = "inline"

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Started(pid=subprocess.Popen(["sleep", "600"]).pid)

    def step(self, action, timeout_s=None, **kwargs):
        return Started(pid=0, done=True)

    @property
    def state(self):
        return State()
"""


def test_ctrl_c_ends_a_program_that_serves_with_130_and_no_traceback(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "starts.py").write_text(ENVIRONMENT)
    program = (
        f"from openenv import create_app, serve; from starts import Starts; serve(create_app(Starts), port={port})"
    )
    server = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_until_ready(f"http://127.0.0.1:{port}", 60)
    server.send_signal(signal.SIGINT)
    _, errors = server.communicate(timeout=30)

    assert (server.returncode, "Traceback" in errors) == (130, False), errors


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.finding("programs of an inline environment end with their server")
def test_programs_that_an_environment_has_started_end_with_their_server(tmp_path: Path, workers: str) -> None:
    (tmp_path / "starts.py").write_text(ENVIRONMENT)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "openenv", "serve", "starts.py:Starts", "--port", str(port), "--workers", workers]
    server = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(url, 60)
        with GenericEnvClient(url) as env:
            pid = env.reset().observation["pid"]
        assert not has_ended(pid)
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        deadline = time.monotonic() + 10
        while not has_ended(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert has_ended(pid)
    finally:
        server.kill()
        if not has_ended(pid):
            os.kill(pid, signal.SIGKILL)
