"""The first program in a sandbox: gives up what is left of its rights, and becomes the program that was asked for.

`python -I -S box_init.py SETTINGS`, where SETTINGS is a JSON object; see `Settings`. It uses the standard library and
the two modules beside it only, since nothing else of the server is in the sandbox.
"""

import ctypes
import json
import os
import resource
import sys
from typing import TypedDict

_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 24, 38
_CAPABILITIES = range(64)
SYSTEM_READABLE = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/dev/urandom", "/dev/random", "/dev/zero")
SYSTEM_WRITABLE = ("/dev/null",)


class Settings(TypedDict):
    """What the program may do."""

    command: list[str]
    """The program and its arguments. The first may be the name `python`: the interpreter that runs this."""
    directory: str
    uid: int | None
    """The user to become; None: the one it is."""
    limits: dict[str, int]
    """Numbers of `resource` by their names without RLIMIT_."""
    readable: list[str]
    """Paths that may be read and executed."""
    listed: list[str]
    """Directories of which the names may be read, and those of all below."""
    writable: list[str]
    tcp: bool
    """Whether TCP may be used, where a network of its own contains it."""
    filter: str | None
    """The system call filter as hexadecimal digits; None: bubblewrap has set it."""


def main() -> None:
    """Restrict this process by the settings of the command line, and run the command."""
    settings: Settings = json.loads(sys.argv[1])
    for name, value in settings["limits"].items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
        after = 1 if name == "CPU" and soft == value else 0  # SIGXCPU comes first, which names the limit
        resource.setrlimit(kind, (soft, soft + after))
    libc = ctypes.CDLL(None, use_errno=True)
    if settings["uid"] is not None:
        _become(libc, settings["uid"])
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs was refused")
    os.umask(0o077)
    os.chdir(settings["directory"])
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import landlock

    writable = [*SYSTEM_WRITABLE, *settings["writable"]]
    landlock.restrict(settings["readable"], writable, settings["listed"], tcp=settings["tcp"])
    command = settings["command"]
    program = sys.executable if command[0] == "python" else command[0]
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    if settings["filter"] is not None:
        import seccomp

        seccomp.apply(bytes.fromhex(settings["filter"]))
    os.execv(program, [program, *command[1:]])


def _become(libc: ctypes.CDLL, uid: int) -> None:
    """Become a user without any capability. Raises OSError."""
    for capability in _CAPABILITIES:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


if __name__ == "__main__":
    main()
