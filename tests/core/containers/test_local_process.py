"""A server's module that a program has started ends with it, however it ends."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from openenv.core.containers.local_process import LocalServer, ServerProcess, free_port, module_command
from openenv.core.containers.readiness import wait_until_ready
from openenv.core.errors import ContainerFault, NotReady

ECHO = "openenv.envs.echo_env.server.app"
OWNERS = {
    "LocalServer": f"""
from openenv.core.containers.local_process import LocalServer
server = LocalServer({ECHO!r}).start()
print(server.pid, flush=True)
""",
    "ModuleProvider": f"""
from openenv.core.containers.runtime.module_provider import ModuleProvider
provider = ModuleProvider({ECHO!r})
provider.start()
provider.wait_for_ready()
print(provider._process.pid, flush=True)
""",
}
FORKS = f"""
import os
{OWNERS["LocalServer"]}
fork = os.fork()
if fork:
    print(fork, flush=True)
"""
IS_STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: None)
print("ready", flush=True)
while True:
    time.sleep(60)
"""


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _ends(pid: int) -> bool:
    """Whether a process ends by itself, soon."""
    deadline = time.monotonic() + 30
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    if not _is_running(pid):
        return True
    os.kill(pid, signal.SIGKILL)
    return False


def _killed(owner: str, number: signal.Signals, num_told: int = 1) -> list[int]:
    """The process ids that a program told before it got that signal; they were running then."""
    program = [sys.executable, "-c", f"{owner}\nimport time\ntime.sleep(600)"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(num_told)]
        were_running = all(map(_is_running, told))
        process.send_signal(number)
    assert were_running
    return told


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_is_killed_leaves_no_server(owner: str, number: signal.Signals) -> None:
    (server,) = _killed(OWNERS[owner], number)
    assert _ends(server)


def test_nor_does_one_whose_fork_lives_on() -> None:
    server, fork = _killed(FORKS, signal.SIGKILL, num_told=2)
    try:
        assert _is_running(fork)
        assert _ends(server)
    finally:
        os.kill(fork, signal.SIGKILL)


def test_a_server_that_does_not_want_to_end_is_killed(tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(IS_STUBBORN)
    ours, theirs = os.pipe(), os.pipe()
    command = module_command("stubborn", 1)
    server = subprocess.Popen(
        command, stdin=ours[0], stdout=theirs[1], stderr=theirs[1], cwd=tmp_path, start_new_session=True
    )
    assert os.read(theirs[0], 1000).strip() == b"ready", "and no warning"
    os.close(ours[1])
    try:
        assert server.wait(30) == -signal.SIGKILL
    finally:
        server.kill()
        for end in (ours[0], *theirs):
            os.close(end)


def test_a_server_that_nobody_refers_to_is_kept() -> None:
    server = LocalServer(ECHO).start()
    pid, circle = server.pid, [server]
    circle.append(circle)  # type: ignore[arg-type]
    del server, circle
    gc.collect()
    time.sleep(1)
    is_running = _is_running(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    assert is_running


def test_what_cannot_be_run_leaves_nothing_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ContainerFault, match="no-such-program cannot be run"):
        ServerProcess(["no-such-program"], "http://127.0.0.1:1")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_server_that_is_stopped_leaves_nothing_open() -> None:
    LocalServer(ECHO).start().stop()  # what is imported meanwhile may stay open
    before = len(os.listdir("/proc/self/fd"))
    with LocalServer(ECHO) as server:
        pid = server.pid
    assert not _is_running(pid)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_module_is_run_as_by_python_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "told.py").write_text("import sys\nprint(__name__, sys.argv[1:3])\nraise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotReady, match=r"ended with code 3(?s:.*)__main__ \['--game', 'x'\]"):
        LocalServer("told", ["--game", "x"]).start()


def test_whether_a_server_has_ended_is_asked_at_first_and_at_last_and_not_with_each_try() -> None:
    asked = []
    with pytest.raises(NotReady, match="was not healthy"):
        wait_until_ready(f"http://127.0.0.1:{free_port()}", 0.3, lambda: asked.append("ended?"))
    assert len(asked) == 2
