"""Landlock: the kernel lets this process and its children reach the named paths only.

Linux 5.13 has it; later versions add rules for truncation, TCP, devices, abstract sockets and signals. See
https://docs.kernel.org/userspace-api/landlock.html. Standard library only: it also runs inside a sandbox.
"""

import ctypes
import os
import stat

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_PATH_BENEATH, _VERSION = 1, 1
_BIND_AND_CONNECT_TCP = 3
_ABSTRACT_SOCKETS_AND_SIGNALS = 3
SIGNALS_VERSION = 6
"""The first version that also denies signals to processes outside, and their abstract sockets."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """The version of the kernel's Landlock; 0 where it has none."""
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))))


def restrict(readable: list[str], writable: list[str], listed: list[str], *, tcp: bool) -> None:
    """Allow these files, or all below these directories, and nothing else. It needs no_new_privs. Paths that do not
    exist are left out.

    Args:
        readable: may be read and executed.
        listed: directories whose names may be read.
        tcp: allow TCP.

    Raises:
        OSError: if the kernel refuses.
    """
    known = version()
    files = (1 << 13) - 1 | (1 << 13 if known >= 2 else 0) | (_TRUNCATE if known >= 3 else 0)
    files |= _IOCTL_DEV if known >= 5 else 0
    network = _BIND_AND_CONNECT_TCP if known >= 4 and not tcp else 0
    rules = _Ruleset(files, network, _ABSTRACT_SOCKETS_AND_SIGNALS if known >= SIGNALS_VERSION else 0)
    size = 8 if known < 4 else 16 if known < SIGNALS_VERSION else 24
    ruleset = _call(_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0))
    for paths, allowed in ((readable, _READ), (writable, files), (listed, _READ_DIR)):
        for path in paths:
            _allow(ruleset, path, allowed)
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, allowed: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        allowed &= _OF_FILES
    rule = _PathRule(allowed, fd)
    _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    os.close(fd)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc().syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"Landlock: {os.strerror(error)}")
    return result
