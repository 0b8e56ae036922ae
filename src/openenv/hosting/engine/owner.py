"""Which process a container belongs to, so that one whose owner is gone can be removed."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from openenv.hosting.engine.connection import Engine

LABEL = "org.openenv"
"""Label of everything that the providers start: `docker ps --filter label=org.openenv` lists it."""
OWNER_PID, _START, _MACHINE = f"{LABEL}.owner-pid", f"{LABEL}.owner-start", f"{LABEL}.owner-machine"
_FOLDER = f"{LABEL}.socket-folder"
_FOLDER_PREFIX = "openenv-socket-"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_FIELD = 19
"""Of /proc/PID/stat, counted from behind the name: when the process started."""


def owner_labels(folder: str | None) -> dict[str, str]:
    """Labels that name this process as the owner of a container. folder: that of its Unix socket, if it has one."""
    pid = os.getpid()
    owner = {LABEL: "1", OWNER_PID: str(pid), _START: _start_of(pid), _MACHINE: _machine()}
    return owner if folder is None else {**owner, _FOLDER: folder}


def make_socket_folder() -> str:
    """A new folder for a Unix socket that another user's program makes: only this user gets there."""
    folder = tempfile.mkdtemp(prefix=_FOLDER_PREFIX)
    inner = os.path.join(folder, "open")
    os.mkdir(inner)
    os.chmod(inner, 0o777)  # the container's user is another one; the outer folder is closed to all but this one
    return inner


def remove_socket_folder(inner: str) -> None:
    """Remove a folder that `make_socket_folder` made."""
    outer = Path(inner).parent
    if outer.name.startswith(_FOLDER_PREFIX) and outer.parent == Path(tempfile.gettempdir()):
        shutil.rmtree(outer, ignore_errors=True)


def remove_ownerless(engine: Engine) -> None:
    """Remove the engine's containers whose owner was a process of this machine that has ended."""
    # an extra: `Engine` has found it
    from docker.errors import APIError, NotFound

    with engine.errors("listing containers"):
        found = engine.client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
    for container in found:
        if _is_ownerless(container.labels):
            with contextlib.suppress(NotFound, APIError):  # another process removes it too
                container.remove(force=True, v=True)
            if _FOLDER in container.labels:
                remove_socket_folder(container.labels[_FOLDER])


def _is_ownerless(labels: dict[str, Any]) -> bool:
    """Whether the owner has ended. Owners elsewhere, and where there is no /proc, cannot be looked up."""
    pid, machine = labels.get(OWNER_PID, ""), _machine()
    if not machine or labels.get(_MACHINE) != machine or not pid.isdigit():
        return False
    return _start_of(int(pid)) != labels.get(_START)


def _start_of(pid: int) -> str:
    """When a process started, in ticks since the kernel did; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[_START_FIELD]
    except OSError:
        return ""


def _machine() -> str:
    """This boot of this machine, and its namespace of processes; empty where that is unknown."""
    try:
        return f"{_BOOT_ID.read_text(encoding='utf-8').strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""
