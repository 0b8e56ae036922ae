"""A task in a container of its image, on an engine with Docker's API."""

import contextlib
import hashlib
import io
import sys
import tarfile
import threading
import time
from functools import cache
from typing import Any

from openenv.dialects.harbor.machine import SHELL, Command, CommandResult, packed
from openenv.dialects.harbor.task import HarborTask
from openenv.hosting.engine import owner_watch
from openenv.hosting.engine.connection import Engine
from openenv.hosting.engine.isolation import ContainerLimits, Isolation
from openenv.hosting.engine.owner import owner_labels, remove_ownerless
from openenv.hosting.images.engine import docker_build
from openenv.hosting.runtime.docker import REMEDY
from openenv.hosting.runtime.subprocess_tool import unique_name
from openenv.hosting.server_process import ChildProcess

_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
"""What installers of packages and tests of permissions need of root."""
_MIB = 1 << 20
_FOLDER = "/var/tmp/openenv"
_IDLE = ["-c", "while :; do sleep 3600; done"]
_LOGGED = f"rm -f {_FOLDER}/*; echo $$ >{_FOLDER}/pid; ({SHELL}) >{_FOLDER}/out 2>&1"
"""Runs a command with its outputs in a file: programs that it leaves running would hold a pipe open."""
_KILL = f"read pid <{_FOLDER}/pid; kill -s KILL -- -$pid"
_POLL_S = 0.02
_GRACE_S = 5.0
_HEADERS = 1 << 14
"""More bytes than an archive has before the content of its first file."""
_BUILDING = threading.Lock()


@cache
def engine() -> Engine:
    """The engine of this machine. Raises ContainerFault if none answers, or the extra `docker` is missing."""
    found = Engine("Docker", None, REMEDY)
    remove_ownerless(found)
    return found


class ContainerMachine:
    """A container with the task's image, in which an idle program runs."""

    def __init__(self, task: HarborTask) -> None:
        """Builds the image where the engine does not have it. Raises ContainerFault."""
        wanted, connection = task.config.environment, engine()
        image = connection.image(_image_of(task), "missing")
        limits = ContainerLimits(
            memory_bytes=wanted.memory_mb * _MIB, cpus=wanted.cpus, file_bytes=wanted.storage_mb * _MIB
        )
        isolation = Isolation(
            limits=limits, network="bridge" if wanted.has_network else "none", read_only=False,
            user=(image.attrs["Config"] or {}).get("User") or "root", cap_add=_CAPABILITIES,
        )  # fmt: skip
        options = isolation.options(connection, "")
        del options["tmpfs"]  # the engine cannot read files there
        self._engine = connection
        self.workdir = wanted.workdir or (image.attrs["Config"] or {}).get("WorkingDir") or "/"
        self._name = name = unique_name(f"harbor-{task.name}")
        self._watch = ChildProcess([sys.executable, "-P", owner_watch.__file__, connection.url or "", name, ""])
        try:
            with connection.errors(f"starting task {task.name}"):
                self._container: Any = connection.client.containers.create(
                    image.id, _IDLE, entrypoint=["/bin/sh"], name=name, labels=owner_labels(None),
                    environment=wanted.env, **options,
                )  # fmt: skip
                self._container.start()
            self.put(packed({}, (_FOLDER,)))
        except BaseException:
            self.close()
            raise

    def run(self, command: Command) -> CommandResult:
        """Run a command. The engine has no time limit of its own for one, and no event for its end."""
        api, argv = self._engine.client.api, ["/bin/sh", "-c", _LOGGED, "sh", command.text]
        variables, user = dict(command.variables), str(command.user or "")
        with self._engine.errors("running a command"):
            created = api.exec_create(self._container.id, argv, environment=variables, workdir=self.workdir, user=user)[
                "Id"
            ]
            api.exec_start(created, detach=True)
            exit_code = self._ended(created, command.timeout_s)
            if exit_code is None:
                self._container.exec_run(["/bin/sh", "-c", _KILL])
                self._ended(created, _GRACE_S)
        output, size = self._content(f"{_FOLDER}/out", command.output_bytes) or (b"", 0)
        return CommandResult(
            exit_code=exit_code, output=output.decode("utf-8", "replace"), num_left_out=size - len(output)
        )

    def put(self, archive: bytes) -> None:
        """Extract a tar archive at the root."""
        with self._engine.errors("copying files"):
            self._container.put_archive("/", archive)

    def read(self, path: str, most_bytes: int) -> bytes | None:
        """The beginning of a file."""
        found = self._content(path, most_bytes)
        return None if found is None else found[0]

    def close(self) -> None:
        """Remove the container."""
        from docker.errors import NotFound

        with self._engine.errors("removing a container"), contextlib.suppress(NotFound):
            self._engine.client.api.remove_container(self._name, force=True, v=True)
        self._watch.stop()

    def _ended(self, created: str, within_s: float) -> int | None:
        """The exit code of a command; None where it runs on."""
        deadline = time.monotonic() + within_s
        while (found := self._engine.client.api.exec_inspect(created))["Running"]:
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_S)
        code: int = found["ExitCode"]
        return code

    def _content(self, path: str, most_bytes: int) -> tuple[bytes, int] | None:
        """The beginning of a file and its size; None where there is none."""
        from docker.errors import NotFound

        with self._engine.errors(f"reading {path}"):
            try:
                chunks, _ = self._container.get_archive(path)
            except NotFound:
                return None
            kept = bytearray()
            for chunk in chunks:
                kept += chunk
                if len(kept) > most_bytes + _HEADERS:
                    break
        with tarfile.open(fileobj=io.BytesIO(kept)) as tar:
            entry = tar.next()
            file = tar.extractfile(entry) if entry is not None and entry.isreg() else None
            return None if entry is None or file is None else (file.read(most_bytes), entry.size)


def _image_of(task: HarborTask) -> str:
    """The name of the task's image, which is built once for the same files. Raises ContainerFault."""
    named = task.config.environment.docker_image
    if named is not None:
        return named
    digest = hashlib.sha256()
    for path in sorted(path for path in task.context.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(task.context)}\0{path.stat().st_mode}\0".encode() + path.read_bytes())
    tag = f"openenv-harbor:{digest.hexdigest()[:32]}"
    with _BUILDING:
        if not engine().client.images.list(name=tag):
            docker_build(tag, task.context / "Dockerfile", task.context)
    return tag
