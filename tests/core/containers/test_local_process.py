"""A server that a program has started ends with it, however it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from openenv.core.containers.local_process import LocalServer
from openenv.core.errors import NotReady

STARTS = {
    "LocalServer": """
from openenv.core.containers.local_process import LocalServer
server = LocalServer("openenv.envs.echo_env.server.app").start()
print(server.pid, flush=True)
""",
    "ModuleProvider": """
from openenv.core.containers.runtime.module_provider import ModuleProvider
provider = ModuleProvider("openenv.envs.echo_env.server.app")
provider.start()
provider.wait_for_ready()
print(provider._process.pid, flush=True)
""",
}


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("starts", STARTS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_is_killed_leaves_no_server(starts: str, number: signal.Signals) -> None:
    program = [sys.executable, "-c", f"{STARTS[starts]}\nimport time\ntime.sleep(600)"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        server = int(process.stdout.readline())
        assert _is_running(server)
        process.send_signal(number)
    try:
        deadline = time.monotonic() + 30
        while _is_running(server) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _is_running(server)
    finally:
        if _is_running(server):
            os.kill(server, signal.SIGKILL)


def test_a_server_module_is_run_as_by_python_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "told.py").write_text("import sys\nprint(__name__, sys.argv[1:3])\nraise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotReady, match=r"ended with code 3(?s:.*)__main__ \['--game', 'x'\]"):
        LocalServer("told", ["--game", "x"]).start()
