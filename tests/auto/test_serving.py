"""`python -m openenv.auto NAME` serves as a child process, and ends as the command does."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.env_server.probes import wait_until

pytestmark = pytest.mark.process

SERVE = [sys.executable, "-m", "openenv.auto"]
RAISES = "def make():\n    raise KeyError('no such board')\n"
SLOW = """import pathlib, time
pathlib.Path("started").touch()
try:
    time.sleep(60)
finally:
    pathlib.Path("cleaned").touch()
"""
PROGRAM = """import pathlib, sys, uvicorn
from openenv.envs.echo_env.server.app import app

def main():
    try:
        uvicorn.run(app, port=int(sys.argv[sys.argv.index("--port") + 1]), log_level="error")
    finally:
        pathlib.Path("cleaned").touch()

if __name__ == "__main__":
    pathlib.Path("started").touch()
    main()
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nosuch", "openenv: environment 'nosuch' is not among"),
        ("nosuch", "Write your own as MODULE:NAME"),
        ("owner/name", "If the Space is meant"),
        ("docker:echo-env", "openenv serve docker:echo-env"),
        ("http://127.0.0.1:9", "is a server that runs already"),
        ("raises.py:make", "raised KeyError when the server called it: 'no such board'"),
    ],
)
def test_what_cannot_be_served_is_one_line(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text(RAISES)

    done = subprocess.run([*SERVE, name], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)

    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_name_is_a_wrong_command_line() -> None:
    done = subprocess.run(SERVE, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 2
    assert "the following arguments are required: name" in done.stderr


@pytest.mark.parametrize("module", [SLOW, PROGRAM], ids=["while it is imported", "in a program of its author"])
def test_code_of_the_author_cleans_up_after_sigterm(module: str, tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "app.py").write_text(module)
    (tmp_path / "openenv.yaml").write_text("name: slow\nserver: server.app\n")
    process = subprocess.Popen([*SERVE, str(tmp_path), "--port", "0"], cwd=tmp_path)
    wait_until((tmp_path / "started").exists, timeout_s=60)

    process.send_signal(signal.SIGTERM)
    process.wait(30)

    assert (tmp_path / "cleaned").exists()
