"""A server in a sandbox is played like any other, and reaches nothing of the machine but its own files."""

import io
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from openenv.auto.sandboxed_server import SandboxedServer
from openenv.core.env_client import EnvClient
from openenv.core.env_server import State
from openenv.core.errors import ContainerFault, NotReady, OpenEnvError
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.hosting.sandbox.limits import SandboxLimits
from openenv.hosting.sandbox.sandbox import SandboxHost
from openenv.hosting.server_process import free_port
from tests.auto.untrusted.curious import CuriousAction, CuriousObservation
from tests.core.env_server.probes import is_running, wait_until

pytestmark = pytest.mark.process

CURIOUS = f"{Path(__file__).parent / 'untrusted' / 'curious.py'}:CuriousEnvironment"


class CuriousEnv(EnvClient[CuriousAction, CuriousObservation, State]):
    """The client of the curious environment."""


@pytest.fixture(scope="module", autouse=True)
def namespaces():
    try:
        SandboxHost("namespaces").close()
    except ContainerFault as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def served():
    with SandboxedServer(CURIOUS) as server:
        server.wait_for_ready()
        yield server


def attempt(server: SandboxedServer, what: str, target: object) -> str:
    with CuriousEnv(base_url=server.base_url) as env:
        env.reset()
        return env.step(CuriousAction(attempt=what, target=str(target))).observation.found


def test_a_client_can_own_a_sandboxed_server():
    with EchoEnv(provider=SandboxedServer("echo")) as env:
        env.reset()
        assert env.step(EchoAction(message="hello")).observation.echoed_message == "hello"


def test_a_sandboxed_server_listens_on_a_unix_socket(tmp_path):
    server = SandboxedServer("echo")
    base_url = server.start(host=f"unix:{tmp_path}/echo.sock")
    try:
        with EchoEnv(base_url=base_url) as env:
            env.reset()
            assert env.step(EchoAction(message="hello")).observation.echoed_message == "hello"
    finally:
        server.stop()


def test_files_outside_cannot_be_read_or_written(served, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o644)
    assert attempt(served, "read", secret).startswith("refused")
    assert attempt(served, "write", tmp_path / "new").startswith("refused")
    assert not (tmp_path / "new").exists()


def test_its_own_files_can_be_read_and_not_written(served):
    source = Path(__file__).parent / "untrusted" / "curious.py"
    assert attempt(served, "read", source) == source.read_text()
    assert attempt(served, "write", source).startswith("refused")


def test_its_own_directory_can_be_written(served):
    assert attempt(served, "write", "/session/notes") == "7"
    assert attempt(served, "read", "/session/notes") == "written"


def test_no_port_of_the_machine_can_be_reached(served):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert attempt(served, "connect", listener.getsockname()[1]).startswith("refused")


def test_no_variable_of_this_process_is_passed_on_but_the_token(monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("OPENENV_TOKEN", "shared")
    with SandboxedServer(CURIOUS, env_vars={"LEVEL": "3"}) as server:
        server.wait_for_ready()
        with CuriousEnv(base_url=server.base_url, headers={"Authorization": "Bearer shared"}) as env:
            env.reset()
            found = {
                name: env.step(CuriousAction(attempt="variable", target=name)).observation.found
                for name in ("API_KEY", "OPENENV_TOKEN", "LEVEL")
            }
        with pytest.raises(OpenEnvError), CuriousEnv(base_url=server.base_url) as without_token:
            without_token.reset()
    assert found == {"API_KEY": "not set", "OPENENV_TOKEN": "shared", "LEVEL": "3"}


def test_a_server_that_uses_too_much_memory_ends_and_the_reason_is_known():
    server = SandboxedServer(CURIOUS, limits=SandboxLimits(memory_bytes=300 << 20, processes=64))
    with server:
        server.wait_for_ready()
        if server.layers["memory"] != "on":
            pytest.skip(f"memory: {server.layers['memory']}")
        with CuriousEnv(base_url=server.base_url, message_timeout_s=5) as env:
            env.reset()
            with pytest.raises(OpenEnvError):
                env.step(CuriousAction(attempt="fill"))
        assert server.wait() == "out of memory"


def test_an_environment_that_cannot_start_is_reported_with_its_output(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "broken.py").write_text("raise RuntimeError('there is no such board')\n")
    server = SandboxedServer(f"{tmp_path}/broken.py:Broken")
    server.start()
    try:
        with pytest.raises(NotReady, match="there is no such board"):
            server.wait_for_ready()
    finally:
        server.stop()


def test_a_terminal_obeys_nothing_that_a_server_writes(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "broken.py").write_text("raise RuntimeError('\\x1b]52;c;cHdu\\x07 \\x9b2J \\u202e caf\u00e9\\tend')\n")
    relay = io.BytesIO()
    server = SandboxedServer(f"{tmp_path}/broken.py:Broken", relay=relay)
    server.start()
    try:
        with pytest.raises(NotReady) as failure:
            server.wait_for_ready()
    finally:
        server.stop()

    for shown in (relay.getvalue().decode(), str(failure.value)):
        assert ": \\x1b]52;c;cHdu\\x07 \\x9b2J \\u202e caf\u00e9\tend (" in shown


@pytest.mark.skipif(os.geteuid() != 0, reason="elsewhere the sandbox has the rights of this user")
def test_a_folder_that_its_owner_alone_may_read_is_refused_with_the_remedy(tmp_path):
    tmp_path.chmod(0o700)
    (tmp_path / "board.py").touch()
    with pytest.raises(ContainerFault, match=r"chmod -R o\+rX"):
        SandboxedServer(f"{tmp_path}/board.py:Board")


def test_a_layer_that_is_missing_is_refused():
    server = SandboxedServer("echo", level="landlock", require=frozenset({"namespaces"}))
    with pytest.raises(ContainerFault):
        server.start()


def test_a_second_start_is_refused(served):
    with pytest.raises(ContainerFault, match=r"stop\(\) it first"):
        served.start()


OWNER = f"""
import time
from openenv.auto.sandboxed_server import SandboxedServer
server = SandboxedServer({CURIOUS!r})
server.start()
server.wait_for_ready()
print(server._host.pid, flush=True)
time.sleep(600)
"""


def test_the_server_ends_when_its_owner_is_killed():
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    inside = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    assert inside
    owner.kill()
    owner.communicate()
    wait_until(lambda: not any(map(is_running, [pid, *inside])), timeout_s=30)


def test_the_command_serves_in_a_sandbox_until_it_is_terminated():
    port = free_port()
    command = [sys.executable, "-m", "openenv", "serve", CURIOUS, "--sandbox", "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines = [process.stderr.readline() for _ in range(2)]
    try:
        with CuriousEnv(base_url=f"http://127.0.0.1:{port}") as env:
            env.reset()
            result = env.step(CuriousAction(attempt="read", target="/etc/passwd"))
            assert result.observation.found.startswith("refused")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert lines[0].startswith(f"serving {CURIOUS} at http://127.0.0.1:{port}")
    assert lines[1].startswith("sandbox: ")
    assert process.returncode == 0
