"""A Docker container is isolated by default, is reached from this machine only, and ends with its owner."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from openenv.core.errors import ContainerFault, NotReady
from openenv.envs.coding_env.client import CodingEnv
from openenv.envs.coding_env.models import CodeAction
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.hosting.engine.owner import OWNER_PID
from openenv.hosting.runtime import ContainerLimits, LocalDockerProvider
from openenv.installation import install_line
from tests.core.env_server.probes import wait_until
from tests.hosting import engines

pytestmark = pytest.mark.process

ECHO = "echo-env:latest"
OWNER = """
import sys, time
from openenv.hosting.runtime import LocalDockerProvider
provider = LocalDockerProvider()
base_url = provider.start_container("echo-env:latest", network="none")
provider.wait_for_ready(base_url)
print(base_url.removeprefix("unix:"), flush=True)
time.sleep(600)
"""
ATTEMPTS = """
import ctypes, errno, json, os, resource, socket
libc = ctypes.CDLL(None, use_errno=True)
def attempt(call):
    try:
        found = call()
    except OSError as error:
        return errno.errorcode[error.errno]
    return errno.errorcode[ctypes.get_errno()] if found == -1 else "done"
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "write /": attempt(lambda: open("/app/file", "w")),
    "write /tmp": attempt(lambda: open("/tmp/file", "w").close()),
    "vsock": attempt(lambda: socket.socket(40, 1).close()),
    "netlink": attempt(lambda: socket.socket(16, 3).close()),
    "tcp": attempt(lambda: socket.socket().close()),
    "unshare": attempt(lambda: libc.unshare(0x10000000)),
    "clone a namespace": attempt(lambda: libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)),
    "io_uring": attempt(lambda: libc.syscall(425, 1, 0)),
    "userfaultfd": attempt(lambda: libc.syscall(323, 1)),
    "keyctl": attempt(lambda: libc.syscall(250, 0, -3, 0)),
    "ptrace": attempt(lambda: libc.ptrace(0, 0, 0, 0)),
    "unnamed call": attempt(lambda: libc.syscall(460, 0, 0, 0, 0)),
    "rights": status["CapBnd"].strip(),
    "no new privileges": status["NoNewPrivs"].strip(),
    "user": os.getuid(),
    "open files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
}))
"""

ISOLATED = {
    **dict.fromkeys(("unshare", "clone a namespace", "io_uring", "userfaultfd", "keyctl", "ptrace"), "EPERM"),
    **dict.fromkeys(("vsock", "netlink"), "EAFNOSUPPORT"),
    **dict.fromkeys(("tcp", "write /tmp"), "done"),
    "write /": "EROFS",
    "unnamed call": "ENOSYS",
    "rights": "0" * 16,
    "no new privileges": "1",
    "user": 1000,
    "open files": 4096,
}
"""What the attempts find in a container with the isolation that is on by default."""
FILL_A_MEBIBYTE = """
open('/tmp/fill', 'wb', 0).write(b'x' * (2 << 20))
open('/tmp/more', 'wb', 0).write(b'x')
"""


@pytest.fixture
def provider(containers):
    with LocalDockerProvider() as made:
        yield made
        made.stop_container()


def attempts(provider):
    result = provider.exec(["python3", "-c", ATTEMPTS])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.mark.parametrize("network", ["bridge", "none"])
def test_the_echo_environment_is_played_in_its_image(containers, network):
    with EchoEnv.from_docker_image(ECHO, network=network) as env:
        env.reset()
        echoed = env.step(EchoAction(message="hello")).observation.echoed_message
        base_url = env.base_url

        assert echoed == "hello"
        assert base_url.startswith("unix:/" if network == "none" else "http://127.0.0.1:")


@pytest.mark.parametrize("network", ["bridge", "none"])
async def test_the_echo_environment_is_played_asynchronously_in_its_image(containers, network):
    async with EchoEnv.from_docker_image(ECHO, network=network) as env:
        await env.reset()

        assert (await env.step(EchoAction(message="hello"))).observation.echoed_message == "hello"


def test_the_openspiel_environment_is_played_in_its_image(containers):
    with OpenSpielEnv.from_docker_image("openspiel-env:latest", network="none") as env:
        result = env.reset()
        while not result.done:
            result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))

        assert result.reward in (-1, 1)


def test_the_coding_environment_is_played_in_its_image(containers):
    with CodingEnv.from_docker_image("coding-env:latest", network="none") as env:
        env.reset()

        assert env.step(CodeAction(code="print(6 * 7)")).observation.stdout == "42\n"


def test_a_container_is_isolated_by_default(provider):
    provider.start_container(ECHO)
    found = attempts(provider)

    assert found == ISOLATED
    assert {layer for layer, state in provider.layers.items() if state != "on"} == {"landlock", "network"}


def test_each_layer_can_be_loosened_and_is_reported(provider):
    limits = ContainerLimits(memory_bytes=None, processes=None, cpus=None, open_files=99)
    provider.start_container(
        ECHO, read_only=False, seccomp=False, user="root", cap_add=["CHOWN"], new_privileges=True, limits=limits
    )
    found = attempts(provider)

    assert found["write /"] == found["vsock"] == "done"
    assert found["rights"] == f"{1:016x}"
    assert (found["no new privileges"], found["user"], found["open files"]) == ("0", 0, 99)
    assert provider.layers["capabilities"] == "off: CHOWN"
    assert {layer for layer, state in provider.layers.items() if state == "on"} == {"namespaces"}


def test_the_limits_of_a_container_hold(provider):
    limits = ContainerLimits(memory_bytes=96 << 20, processes=24, cpus=0.5, tmp_bytes=1 << 20)
    provider.start_container(ECHO, limits=limits)
    fork = "import os, time\nwhile True:\n    os.fork() or time.sleep(60)"
    memory = "bytearray(b'x') * (200 << 20)"
    filled = provider.exec(["python3", "-c", FILL_A_MEBIBYTE])
    allocated = provider.exec(["python3", "-c", memory])
    forked = provider.exec(["python3", "-c", fork])

    assert "No space left" in filled.output
    assert allocated.exit_code == 137
    assert "Resource temporarily unavailable" in forked.output


def test_the_processors_of_a_container_are_limited(provider, containers):
    provider.start_container(ECHO, limits=ContainerLimits(cpus=0.5))
    (container,) = containers()

    assert container.attrs["HostConfig"]["NanoCpus"] == 500_000_000


def test_a_container_that_uses_up_its_memory_is_reported_with_the_reason(provider):
    hog = ["python3", "-c", "bytearray(b'x') * (200 << 20)"]
    base_url = provider.start_container(ECHO, command=hog, limits=ContainerLimits(memory_bytes=64 << 20), port=0)
    with pytest.raises(NotReady, match=r"has exited: out of memory"):
        provider.wait_for_ready(base_url)


def test_a_port_is_published_on_the_loopback_interface_alone(provider, containers):
    base_url = provider.start_container(ECHO)
    (container,) = containers()

    assert container.ports == {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": base_url.rpartition(":")[2]}]}


def test_a_container_has_the_environment_labels_and_sdk_options_that_it_is_given(provider, containers, tmp_path):
    (tmp_path / "data").write_text("here")
    tmp_path.chmod(0o755)
    provider.start_container(
        ECHO, env_vars={"GAME": "x=1"}, labels={"team": "red"}, volumes={str(tmp_path): {"bind": "/data", "mode": "ro"}}
    )
    (container,) = containers()

    assert provider.exec(["/bin/sh", "-c", "echo $GAME; cat /data/data"]).output == "x=1\nhere"
    assert container.labels["team"] == "red"
    assert container.labels["org.openenv"] == "1"


def test_a_container_that_ends_at_once_is_noticed_at_once_with_its_log(provider):
    command = ["python3", "-c", "import sys; sys.exit('no module named game')"]
    with pytest.raises(NotReady, match=r"has exited: exit code 1(?s:.*)no module named game"):
        provider.wait_for_ready(provider.start_container(ECHO, command=command), timeout_s=60)


def test_the_log_has_the_last_lines(provider):
    command = ["python3", "-u", "-c", "import time\nfor i in range(100): print(i)\ntime.sleep(600)"]
    provider.start_container(ECHO, command=command)
    wait_until(lambda: "99" in provider.logs(1))

    assert provider.logs(3).split() == ["97", "98", "99"]


def test_a_provider_runs_one_container_at_a_time_and_may_be_used_again(provider, containers):
    provider.start_container(ECHO)
    with pytest.raises(ContainerFault, match=r"already runs echo-env-"):
        provider.start_container(ECHO)
    provider.stop_container()
    provider.stop_container()
    assert containers() == []
    provider.start_container(ECHO)


def test_a_container_that_is_gone_already_is_stopped(provider, containers):
    provider.start_container(ECHO)
    (container,) = containers()
    container.remove(force=True)
    provider.stop_container()


def test_an_image_that_is_missing_is_named_with_the_remedy_and_no_registry_is_asked(provider):
    with pytest.raises(
        ContainerFault, match=r"no image 'missing:1', and it was not to be pulled(?s:.*)pull=\"missing\""
    ):
        provider.start_container("missing:1", env_vars={"TOKEN": "s3cret"})
    with pytest.raises(ContainerFault, match=r"pulling registry\.invalid/a:1 failed"):
        provider.start_container("registry.invalid/a:1")
    with pytest.raises(ContainerFault, match=r"pulling missing:1 failed") as error:
        provider.start_container("missing:1", pull="missing", env_vars={"TOKEN": "s3cret"})
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("keywords", "match"),
    [
        ({"memory": "1g"}, r"memory: not among the keywords of a container, which are .*limits.*volumes"),
        ({"mem_limit": "1g"}, r"mem_limit: give limits in its place"),
        ({"privileged": True}, r"privileged: give cap_add in its place"),
        ({"pid_mode": "host"}, r"pid_mode: not among"),
        ({"network": "host"}, r"network='host' would share the loopback interface"),
        ({"network": "none", "port": 8000}, r"port=8000: with network='none'"),
        ({"network": "none", "command": ["/bin/sh", "-c", "serve"]}, r"give command="),
        ({"pull": "always"}, r"pull='always': expected one of never, missing"),
    ],
)
def test_what_a_container_cannot_take_is_refused_by_name(provider, containers, keywords, match):
    with pytest.raises(ValueError, match=match):
        provider.start_container(ECHO, **keywords)
    assert containers() == []


def test_a_runtime_that_the_engine_lacks_is_refused(provider):
    with pytest.raises(ContainerFault, match=r"Docker has no runtime 'no-such', but .*runc"):
        provider.start_container(ECHO, runtime="no-such")


@pytest.mark.parametrize(
    ("keywords", "match"),
    [
        ({"runtime": "loose"}, r"the limit of memory would not be enforced: the runtime loose is called with --ignore"),
        ({"runtime": "runsc"}, r"no port would be reached: the runtime runsc has --network=none"),
        ({"runtime": "runsc", "network": "none"}, r"Unix socket would stay in runsc\. Call it with --host-uds=all"),
        ({"runtime": "runsc", "seccomp": True}, r"profile would not be enforced: the kernel of runsc answers"),
    ],
)
def test_what_a_runtime_would_not_enforce_is_refused(provider, containers, engine, keywords, match):
    if not engines.is_own(engine):
        pytest.skip("the engine at DOCKER_HOST may have other runtimes")
    with pytest.raises(ContainerFault, match=match):
        provider.start_container(ECHO, **keywords)
    assert containers() == []


def test_a_port_that_the_engine_does_not_publish_is_refused(provider, containers, engine):
    network = engine.networks.create(f"inside-{os.getpid()}", internal=True)
    try:
        with pytest.raises(ContainerFault, match=r"publishes no port on this network\. Give network='none'"):
            provider.start_container(ECHO, network=network.name)
        assert containers() == []
    finally:
        network.remove()


def test_an_engine_that_does_not_answer_is_an_error_with_the_remedy(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(ContainerFault, match=r"Docker: connecting failed(?s:.*)docker info"):
        LocalDockerProvider()


def test_an_engine_on_another_machine_is_refused(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.77:2375")
    with pytest.raises(ContainerFault, match=r"192\.0\.2\.77:2375: a port or socket there cannot be reached"):
        LocalDockerProvider()


def test_a_missing_sdk_is_an_error_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(ContainerFault, match=re.escape(install_line("docker"))):
        LocalDockerProvider()


class Owner:
    """A program with a container, whose owner it is, and what belongs to it."""

    def __enter__(self):
        self._process = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.folder = Path(self._process.stdout.readline().strip()).parents[1]
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def containers(self, engine):
        filters = {"label": f"{OWNER_PID}={self._process.pid}"}
        return engine.containers.list(all=True, filters=filters, ignore_removed=True)

    def watch(self):
        """The process that watches it."""
        (found,) = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(found)


def test_a_program_that_is_killed_leaves_no_container(engine):
    with Owner() as owner:
        assert len(owner.containers(engine)) == 1
        assert (owner.folder / "open" / "server.sock").is_socket()

    wait_until(lambda: not owner.containers(engine) and not owner.folder.exists(), timeout_s=60)


def test_a_container_that_a_crash_has_left_is_removed_by_the_next_start(engine):
    with Owner() as owner:
        os.kill(owner.watch(), signal.SIGKILL)
    assert len(owner.containers(engine)) == 1
    LocalDockerProvider().close()

    assert owner.containers(engine) == []
    assert not owner.folder.exists()


def test_a_container_whose_owner_runs_is_left_alone(engine, provider, containers):
    provider.start_container(ECHO)
    LocalDockerProvider().close()

    assert len(containers()) == 1


def test_what_a_program_forgets_to_close_is_stopped_when_it_ends(engine):
    code = "from openenv.envs.echo_env import EchoEnv\nEchoEnv.from_docker_image('echo-env').reset()"
    with subprocess.Popen([sys.executable, "-c", code]) as program:
        assert program.wait() == 0

    assert engine.containers.list(all=True, filters={"label": f"{OWNER_PID}={program.pid}"}) == []


def test_a_container_that_is_stopped_leaves_no_folder_no_process_and_nothing_open(containers):
    def belongings():
        folders = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("openenv-socket-")}
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return folders, children, len(os.listdir("/proc/self/fd"))

    before = belongings()
    provider = LocalDockerProvider()
    provider.start_container(ECHO, network="none")
    during = belongings()
    provider.stop_container()

    assert [len(now) - len(then) for now, then in zip(during[:2], before[:2], strict=True)] == [1, 1]
    assert belongings() == before
