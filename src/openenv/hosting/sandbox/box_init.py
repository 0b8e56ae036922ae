"""The first program in a sandbox: gives up what is left of its rights, and becomes the program that was asked for.

`python -S box_init.py SETTINGS`, where SETTINGS is a marshalled dictionary in hexadecimal digits, with the fields of
`box_spec.InitSettings`. It uses the two modules beside it and little of the standard library: nothing else of the
server is in the sandbox, and each import takes time whenever a sandbox starts (json takes as long as Python).
"""

import ctypes
import marshal
import os
import sys

_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 24, 38
_CAPABILITIES = range(64)
SYSTEM_READABLE = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/dev/urandom", "/dev/random", "/dev/zero")
SYSTEM_WRITABLE = ("/dev/null",)


def main() -> None:
    """Restrict this process by the settings of the command line, and run the command."""
    import resource  # Windows, whose servers import this module for its constants, has none

    settings = marshal.loads(bytes.fromhex(sys.argv[1]))
    if settings["shares_user"]:
        settings["limits"]["NPROC"] += _processes_of_user()
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
    import landlock

    writable = [*SYSTEM_WRITABLE, *settings["writable"]]
    landlock.restrict(settings["readable"], writable, settings["listed"], tcp=settings["tcp"])
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    if settings["filter"] is not None:
        import seccomp

        seccomp.apply(bytes.fromhex(settings["filter"]))
    _run(settings["command"])


def _processes_of_user() -> int:
    """The processes and threads of this user, also of other containers: the least limit that allows another one."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    with open("/proc/loadavg", encoding="utf-8") as file:
        of_machine = int(file.read().split()[3].partition("/")[2])
    least, most = 0, of_machine if hard == resource.RLIM_INFINITY else min(of_machine, hard)
    while least < most:
        middle = (least + most) // 2
        resource.setrlimit(resource.RLIMIT_NPROC, (middle, hard))
        try:
            pid = os.fork()
        except BlockingIOError:
            least = middle + 1
            continue
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        most = middle
    return least


def _run(command: list[str]) -> None:
    """Become a program, or run a Python file in this process."""
    if command[0] != "script":
        program = sys.executable if command[0] == "python" else command[0]
        os.execv(program, [program, *command[1:]])
    sys.argv = command[1:]
    sys.path[0] = ""
    with open(sys.argv[0], encoding="utf-8") as file:
        code = compile(file.read(), sys.argv[0], "exec")
    exec(code, {"__name__": "__main__", "__builtins__": __builtins__, "__file__": sys.argv[0]})


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
