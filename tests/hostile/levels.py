"""Where hostile programs run: in a sandbox, or in a container of Docker as the provider isolates it."""

import contextlib
import json
import os
import tempfile
import time
from typing import Any, Protocol

from docker.errors import APIError
from docker.models.containers import Container
from requests.exceptions import ConnectionError, ReadTimeout

from openenv.hosting.engine.owner import OWNER_PID
from openenv.hosting.runtime import ContainerLimits, LocalDockerProvider
from openenv.hosting.sandbox.box_spec import BoxSpec
from openenv.hosting.sandbox.host import users_of
from openenv.hosting.sandbox.limits import SandboxLimits
from openenv.hosting.sandbox.program import ProgramResult, run_program
from openenv.hosting.sandbox.python_files import with_python
from openenv.hosting.sandbox.sandbox import SandboxEnd, SandboxHost

LIMITS = SandboxLimits(cpu_seconds=3, processes=32)
CONTAINER_LIMITS = ContainerLimits(
    memory_bytes=LIMITS.memory_bytes,
    processes=LIMITS.processes,
    open_files=LIMITS.open_files,
    file_bytes=LIMITS.file_bytes,
    tmp_bytes=LIMITS.session_bytes,
    log_bytes=1 << 20,
)
SECONDS = 4.0
_USER = 1000
_SIGNAL = 128
"""A container's exit code for a signal is this plus its number."""
_HARMLESS = ["-I", "-S", "-c", "print(1)"]
_START = """
import json, os, sys
given = json.load(open(sys.argv[1]) if os.path.exists(sys.argv[1]) else sys.stdin)
here = os.getcwd()
for name, text in given["files"].items():
    with open(name, "w") as file:
        file.write(text.replace("/session", here))
os.execv(given["run"][0] or sys.executable, [given["run"][0] or sys.executable, *given["run"][1:]])
"""
"""Writes the program into its directory, and becomes it. The argument is a file that describes it, or else the standard
input does."""
_GIVEN = "/given"


class Level(Protocol):
    """A place where programs run."""

    name: str

    @property
    def layers(self) -> Any:
        """Each layer: `on`, or `off` with the reason."""

    @property
    def user(self) -> int | None:
        """The user of its programs; None: this process's."""

    def run(self, files: dict[str, str], command: list[str]) -> ProgramResult:
        """Write files into the directory of a program, and run it. command: "" stands for Python."""

    def run_harmless(self) -> None:
        """Run a program that prints something, apart from others."""


class SandboxLevel:
    """Sandboxes of a host."""

    def __init__(self, host: SandboxHost) -> None:
        self.name = host.level
        self.user = users_of(host.pid)[1] if os.geteuid() == 0 else None
        self._host = host

    @property
    def layers(self) -> Any:
        """Those of the host."""
        return self._host.layers

    def run(self, files: dict[str, str], command: list[str]) -> ProgramResult:
        """Run a program in a sandbox."""
        start = BoxSpec(command=("python", "-I", "-S", "-c", _START, ""), limits=LIMITS, python=self._host.python)
        given = json.dumps({"files": files, "run": command}).encode()
        return run_program(self._host, with_python(start), stdin=given, seconds=SECONDS)

    def run_harmless(self) -> None:
        """Run a program in a sandbox of its own."""
        spec = with_python(BoxSpec(command=("python", *_HARMLESS), python=self._host.python))
        result = run_program(self._host, spec)
        assert result.stdout == b"1\n", result


class DockerLevel:
    """Containers of an engine, beside one in which a neighbour runs."""

    name = "docker"
    user = _USER

    def __init__(self, client: Any, image: str) -> None:
        """client: of the engine that DOCKER_HOST names."""
        self._client = client
        self._image = image
        self._neighbour = LocalDockerProvider()
        self._neighbour.start_container(
            image, command=["python3", "-c", "import time; time.sleep(10**6)"], network="none"
        )

    def close(self) -> None:
        """Remove the neighbour."""
        self._neighbour.stop_container()
        self._neighbour.close()

    @property
    def layers(self) -> dict[str, str]:
        """Those of the provider."""
        return self._neighbour.layers

    def run(self, files: dict[str, str], command: list[str]) -> ProgramResult:
        """Run a program in a container."""
        started = time.monotonic()
        with tempfile.NamedTemporaryFile("w") as given, LocalDockerProvider() as provider:
            json.dump({"files": files, "run": command}, given)
            given.flush()
            os.chmod(given.name, 0o644)
            provider.start_container(
                self._image,
                command=["python3", "-I", "-S", "-c", _START, _GIVEN],
                network="none",
                limits=CONTAINER_LIMITS,
                env_vars={"OPENENV_SANDBOX": "1"},
                working_dir="/tmp",
                volumes={given.name: {"bind": _GIVEN, "mode": "ro"}},
            )
            container = self._started()
            stopped = _wait(container)
            container.reload()
            result = _result(container, stopped, time.monotonic() - started)
            provider.stop_container()
        return result

    def run_harmless(self) -> None:
        """Run a program in the container of the neighbour."""
        result = self._neighbour.exec(["python3", *_HARMLESS])
        assert result.output == "1\n", result

    def _started(self) -> Container:
        """The container that was started last."""
        found: list[Container] = self._client.containers.list(
            all=True, limit=1, filters={"label": f"{OWNER_PID}={os.getpid()}"}
        )
        return found[0]


def _wait(container: Container) -> str:
    """Wait for the end of a container, and kill it after a time; return why it was killed, or nothing."""
    try:
        container.wait(timeout=SECONDS)
    except (ConnectionError, ReadTimeout):  # the SDK raises one or the other
        with contextlib.suppress(APIError):  # it may have ended meanwhile
            container.kill()
        container.wait()
        return "time limit"
    return ""


def _result(container: Container, stopped: str, seconds: float) -> ProgramResult:
    state = container.attrs["State"]
    code = state["ExitCode"]
    end = SandboxEnd(
        exit_code=_SIGNAL - code if code > _SIGNAL else code,
        out_of_memory=int(state["OOMKilled"]),
        refused_processes=0,
        peak_memory_bytes=0,
    )
    output = {name: container.logs(stdout=name == "stdout", stderr=name == "stderr") for name in ("stdout", "stderr")}
    return ProgramResult(**output, is_cut=False, stopped=stopped, end=end, seconds=seconds)
