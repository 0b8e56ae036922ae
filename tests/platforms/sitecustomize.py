"""Python starts as on a system without what only Unix or only Linux has: put this folder on PYTHONPATH.

Libraries that were built for Linux need some of it, so the modules are hidden from openenv alone.
"""

import builtins
import io
import os
import signal
import sys
from typing import Any

_MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty", "uvloop"}
_SIGNALS = ("SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGURG", "setitimer", "pthread_kill", "alarm")
_CALLS = ("fork", "sched_getaffinity", "pread", "killpg", "memfd_create", "geteuid", "setsid", "prlimit")
_FILES = ("/proc/", "/sys/")

_import, _open = builtins.__import__, io.open


def _without_modules(name: str, scope: Any = None, *arguments: Any, **keywords: Any) -> Any:
    importer = str((scope or {}).get("__name__", ""))
    if name.partition(".")[0] in _MODULES and (importer.startswith("openenv") or name == "uvloop"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return _import(name, scope, *arguments, **keywords)


def _without_files(file: Any, *arguments: Any, **keywords: Any) -> Any:
    if isinstance(file, str | os.PathLike) and str(file).startswith(_FILES):
        raise FileNotFoundError(2, "No such file or directory", str(file))
    return _open(file, *arguments, **keywords)


builtins.__import__ = _without_modules
builtins.open = io.open = _without_files
for _module, _names in ((signal, _SIGNALS), (os, _CALLS)):
    for _name in _names:
        if hasattr(_module, _name):
            delattr(_module, _name)
sys.modules.pop("resource", None)
