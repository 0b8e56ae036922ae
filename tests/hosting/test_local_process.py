"""A server's module that a program has started ends with it, however it ends."""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from openenv.core.errors import ContainerFault, NotReady
from openenv.hosting.local_process import LocalServer
from openenv.hosting.server_process import ServerProcess, free_port, module_command, wait_until_ready
from tests.core.env_server.probes import is_running, wait_until

ECHO = "openenv.envs.echo_env.server.app"
OWNERS = {
    "launched": f"""
from openenv.hosting.local_process import LocalServer
server = LocalServer({ECHO!r}).launch()
print(server.pid, flush=True)
""",
    "started as a provider": f"""
from openenv.hosting.local_process import LocalServer
provider = LocalServer({ECHO!r})
provider.start()
provider.wait_for_ready()
print(provider.pid, flush=True)
""",
}
FORKS = f"""
import os
{OWNERS["launched"]}
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


def _wait_for_end(pid: int) -> None:
    """Return when a process has ended by itself; kill it and fail if it does not."""
    try:
        wait_until(lambda: not is_running(pid), timeout_s=30)
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        raise


def _killed(owner: str, number: signal.Signals, num_pids: int = 1) -> list[int]:
    """Process ids that a program printed before it received the signal; they were running then."""
    program = [sys.executable, "-c", f"{owner}\nimport time\ntime.sleep(600)"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(num_pids)]
        were_running = all(map(is_running, pids))
        process.send_signal(number)
    assert were_running
    return pids


@pytest.mark.process
@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_is_killed_leaves_no_server(owner: str, number: signal.Signals) -> None:
    (server,) = _killed(OWNERS[owner], number)
    _wait_for_end(server)


@pytest.mark.process
def test_a_program_that_is_killed_leaves_no_server_while_its_fork_runs() -> None:
    server, fork = _killed(FORKS, signal.SIGKILL, num_pids=2)
    try:
        assert is_running(fork)
        _wait_for_end(server)
    finally:
        os.kill(fork, signal.SIGKILL)


@pytest.mark.process
def test_a_server_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
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


@pytest.mark.process
def test_a_server_without_references_keeps_running() -> None:
    gc.collect()
    before = _open_pipes()
    server = LocalServer(ECHO).launch()
    pid, circle = server.pid, [server]
    circle.append(circle)  # type: ignore[arg-type]
    pipes = _open_pipes() - before
    del server, circle
    gc.collect()
    try:
        assert pipes
        assert pipes <= _open_pipes(), "the server ends when its pipe closes"
    finally:
        os.kill(pid, signal.SIGKILL)


def _open_pipes() -> set[str]:
    """The pipes of this process, those of earlier tests among them."""
    folder = Path("/proc/self/fd")
    targets = [os.readlink(fd) for fd in folder.iterdir() if fd.is_symlink()]
    return {target for target in targets if target.startswith("pipe:")}


def test_what_cannot_be_run_leaves_nothing_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ContainerFault, match="no-such-program cannot be run"):
        ServerProcess(["no-such-program"], "http://127.0.0.1:1")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_server_that_is_stopped_leaves_nothing_open() -> None:
    LocalServer(ECHO).launch().stop()  # what is imported meanwhile may stay open
    before = len(os.listdir("/proc/self/fd"))
    with LocalServer(ECHO) as server:
        pid = server.pid
    assert not is_running(pid)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_task_that_is_cancelled_while_its_server_starts_leaves_none() -> None:
    server = LocalServer(ECHO)
    starting = asyncio.ensure_future(server.__aenter__())
    await asyncio.sleep(0)
    pid = server.pid
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not is_running(pid)


async def test_a_server_serves_while_its_context_is_open_in_an_event_loop() -> None:
    async with LocalServer(ECHO) as server:
        pid = server.pid
        wait_until_ready(server.base_url, 1.0)
    assert not is_running(pid)


def test_a_module_is_run_as_by_python_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ending.py").write_text("import sys\nprint(__name__, sys.argv[1:3])\nraise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotReady, match=r"^the server ended with code 3(?s:.*)__main__ \['--game', 'x'\]"):
        LocalServer("ending", ["--game", "x"]).launch()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot keep a port for a server")
def test_a_free_port_is_kept_for_the_server_that_asks_for_it() -> None:
    port = free_port()

    with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
        other.bind(("127.0.0.1", port))
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen()


def test_whether_a_server_has_ended_is_asked_at_first_and_at_last_and_not_with_each_try() -> None:
    asked = []
    with pytest.raises(NotReady, match="was not healthy"):
        wait_until_ready(f"http://127.0.0.1:{free_port()}", 0.3, lambda: asked.append("ended?"))
    assert len(asked) == 2


def test_a_server_cannot_send_this_process_to_another_address() -> None:
    asked = []

    class Redirect(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Redirect) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(NotReady, match="was not healthy"):
            wait_until_ready(f"http://127.0.0.1:{server.server_port}", 0.3)
        server.shutdown()

    assert set(asked) == {"/health"}
