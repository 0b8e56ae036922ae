"""A task in a sandbox of this machine, whose system stands in for the image's."""

import base64
from functools import cache
from pathlib import Path
from typing import Any

from openenv.dialects.harbor.dockerfile import Plan, plan_of
from openenv.dialects.harbor.machine import SHELL, Command, CommandResult, MachineEnded, packed
from openenv.dialects.harbor.task import HarborTask
from openenv.envs.coding_env.server.session import InterpreterEnded, SandboxedInterpreter
from openenv.hosting.sandbox.box_spec import BoxSpec
from openenv.hosting.sandbox.limits import SandboxLimits
from openenv.hosting.sandbox.python_files import with_python
from openenv.hosting.sandbox.sandbox import SandboxHost

_RUNNER = str(Path(__file__).with_name("box_runner.py"))
_OWN_DIRECTORIES = ("/logs", "/root", "/solution", "/tests")
_SYSTEM_NAMES = "/etc/alternatives"
"""Where Debian's systems say which program a name such as `awk` is."""
_FILES_S = 60.0
_MIB = 1 << 20
_PROCESSES, _OPEN_FILES = 256, 1024


@cache
def sandbox_host() -> SandboxHost:
    """Starts the sandboxes of all sessions. Raises ContainerFault where this machine has no namespaces.

    The directories of a task, such as /app, are mounts, which Landlock alone does not have.
    """
    return SandboxHost("namespaces")


def box_plan(task: HarborTask) -> Plan:
    """What a sandbox of the task begins with. Raises NeedsEngine where it needs an image."""
    plan = plan_of(task.context / "Dockerfile")
    if task.config.environment.workdir is not None:
        plan.workdir = plan.enter(task.config.environment.workdir)
    return plan


class BoxMachine:
    """A sandbox with the task's files, which holds a program that runs its commands."""

    def __init__(self, task: HarborTask) -> None:
        """Raises ContainerFault if no sandbox can be started, NeedsEngine if the task needs an image."""
        plan, host = box_plan(task), sandbox_host()
        wanted = task.config.environment
        limits = SandboxLimits(
            memory_bytes=wanted.memory_mb * _MIB,
            cpus=wanted.cpus,
            processes=_PROCESSES,
            open_files=_OPEN_FILES,
            file_bytes=wanted.storage_mb * _MIB,
            session_bytes=wanted.storage_mb * _MIB,
        )
        variables = {"PATH": f"{Path(host.python).parent}:/usr/bin:/bin", "HOME": "/root"}
        spec = BoxSpec(
            command=("script", _RUNNER),
            limits=limits,
            readable=tuple(path for path in (_SYSTEM_NAMES,) if Path(path).is_dir()),
            directories=tuple(sorted({*_OWN_DIRECTORIES, *plan.directories})),
            environment={**variables, **plan.variables, **wanted.env},
            python=host.python,
        )
        self.workdir = plan.workdir
        self._runner = SandboxedInterpreter(host.start(with_python(spec)))
        try:
            self.put(packed(plan.files))
        except BaseException:
            self.close()
            raise

    def run(self, command: Command) -> CommandResult:
        """Run a command. The sandbox has one user."""
        ran = self._request(
            command.timeout_s,
            command=["/bin/sh", "-c", SHELL, "sh", command.text],
            directory=self.workdir,
            seconds=command.timeout_s,
            most=command.output_bytes,
            variables=dict(command.variables),
        )
        output = base64.b64decode(ran["output"]).decode("utf-8", "replace")
        return CommandResult(exit_code=ran["exit_code"], output=output, num_left_out=ran["num_left_out"])

    def put(self, archive: bytes) -> None:
        """Extract a tar archive. Raises OSError where the sandbox refuses it, such as for want of space."""
        self._request(_FILES_S, archive=base64.b64encode(archive).decode())

    def read(self, path: str, most_bytes: int) -> bytes | None:
        """The beginning of a file."""
        content = self._request(_FILES_S, read=path, most=most_bytes)["content"]
        return None if content is None else base64.b64decode(content)

    def close(self) -> None:
        """End the sandbox."""
        self._runner.close()

    def _request(self, within_s: float, **fields: Any) -> dict[str, Any]:
        """The response. Raises MachineEnded for a sandbox that has ended, OSError for what its system refuses."""
        try:
            response = self._runner.request(within_s, **fields)
        except InterpreterEnded as error:
            raise MachineEnded(f"the sandbox has ended: {error}") from None
        if "error" in response:
            raise OSError(response["error"])
        return response
