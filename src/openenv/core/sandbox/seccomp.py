"""A system call filter that denies what no program of a sandbox needs: a classic BPF program, in bytes.

The kernel runs the filter for each system call. Denied calls fail with EPERM, clone3 with ENOSYS, so that the C library
falls back to clone, and calls of another architecture end the process. Standard library only: it also runs inside.
"""

import ctypes
import platform
import struct
from typing import NamedTuple

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in `struct seccomp_data`. An argument has 64 bits, its low half first."""
_NAMESPACE_FLAGS = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""
_X32 = 0x40000000
"""Numbers from here on are those of the x32 ABI."""
_LOCAL_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET and AF_INET6."""


class _Calls(NamedTuple):
    """The system call numbers of an architecture."""

    audit: int
    """The architecture, as the kernel names it."""
    denied: tuple[int, ...]
    own_process_only: tuple[int, ...]
    """Calls whose first argument is a process id: 0, the caller's own, is allowed."""
    clone: int
    socket: int


_CLONE3 = 435
_DENIED_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 447)
"""io_uring_*, open_tree, move_mount, fs*, pidfd_getfd, mount_setattr and memfd_secret have one number everywhere."""

_X86_64 = _Calls(
    audit=0xC000003E,
    denied=(
        *(29, 64, 68),  # shmget semget msgget: their objects outlive the process
        101,  # ptrace
        103,  # syslog
        *(134, 135, 136, 139, 141, 251),  # uselib personality ustat sysfs setpriority ioprio_set
        *(153, 154, 155, 156),  # vhangup modify_ldt pivot_root _sysctl
        *(159, 161, 163, 164, 165, 166, 167, 168, 169),  # adjtimex chroot acct settimeofday mount umount2 swap* reboot
        *(170, 171, 172, 173, 174, 175, 176, 177, 178, 179, 180),  # set*name iop* *_module quotactl nfsservctl
        *(
            212,
            227,
            237,
            238,
            239,
            246,
            248,
            249,
            250,
            256,
        ),  # lookup_dcookie clock_settime *mempolicy kexec keys migrate
        *(272, 279, 298, 300, 303, 304, 305, 308),  # unshare move_pages perf fanotify *_handle_at clock_adjtime setns
        *(310, 311, 312, 313, 320, 321, 323),  # process_vm_* kcmp finit_module kexec_file_load bpf userfaultfd
        *_DENIED_EVERYWHERE,
    ),
    own_process_only=(142, 144, 203, 302, 314),  # sched_setparam sched_setscheduler sched_setaffinity prlimit64 setattr
    clone=56,
    socket=41,
)
_AARCH64 = _Calls(
    audit=0xC00000B7,
    denied=(
        *(
            30,
            39,
            40,
            41,
            51,
            58,
            60,
            89,
            140,
        ),  # ioprio_set umount2 mount pivot_root chroot vhangup quotactl acct setprio
        *(92, 97, 104, 105, 106, 112, 116, 117, 142),  # personality unshare kexec *_module clock_settime syslog ptrace
        *(161, 162, 170, 171, 217, 218, 219, 224, 225),  # set*name settimeofday adjtimex keys swap*
        *(235, 236, 237, 238, 239, 241, 262, 264, 265, 266, 268),  # mempolicy perf fanotify *_handle_at adjtime setns
        *(186, 190, 194),  # msgget semget shmget
        *(270, 271, 272, 273, 280, 282, 294),  # process_vm_* kcmp finit_module bpf userfaultfd kexec_file_load
        *_DENIED_EVERYWHERE,
    ),
    own_process_only=(118, 119, 122, 261, 274),
    clone=220,
    socket=198,
)
_BY_MACHINE = {"x86_64": _X86_64, "aarch64": _AARCH64}


def is_supported() -> bool:
    """Whether there is a filter for this machine's processor."""
    return platform.machine() in _BY_MACHINE


def deny_filter(*, sockets: bool) -> bytes:
    """The filter for this machine. sockets: allow local sockets and those of the internet; else none can be made.

    Raises KeyError for a processor without a filter.
    """
    calls = _BY_MACHINE[platform.machine()]
    program = [_jump(_LOAD, _ARCHITECTURE), _jump(_EQUAL, calls.audit, 1, 0), _jump(_RETURN, _KILL)]
    program += [_jump(_LOAD, _NUMBER)]
    if calls is _X86_64:
        program += [_jump(_AT_LEAST, _X32, 0, 1), _jump(_RETURN, _KILL)]
    for number in sorted(calls.denied):
        program += _when(number, [_jump(_RETURN, _ERRNO | _EPERM)])
    program += _when(_CLONE3, [_jump(_RETURN, _ERRNO | _ENOSYS)])
    program += _when(calls.clone, _first_argument(_ANY_BIT, (_NAMESPACE_FLAGS,), allow=False, error=_EPERM))
    for number in calls.own_process_only:
        program += _when(number, _first_argument(_EQUAL, (0,), allow=True, error=_EPERM))
    families = _LOCAL_FAMILIES if sockets else ()
    program += _when(calls.socket, _first_argument(_EQUAL, families, allow=True, error=_EAFNOSUPPORT))
    return b"".join([*program, _jump(_RETURN, _ALLOW)])


def apply(program: bytes) -> None:
    """Filter this process and its children from now on. It needs no_new_privs. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    instructions = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    filtered = Program(len(program) // 8, ctypes.addressof(instructions))
    if libc.prctl(22, 2, ctypes.byref(filtered), 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise OSError(ctypes.get_errno(), "the system call filter was refused")


def _jump(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction; the jumps count instructions to skip."""
    return struct.pack("=HBBI", code, if_true, if_false, value & 0xFFFFFFFF)


def _when(number: int, then: list[bytes]) -> list[bytes]:
    """Instructions that are skipped unless the call has this number. The number is loaded before and after."""
    return [_jump(_EQUAL, number, 0, len(then)), *then]


def _first_argument(test: int, values: tuple[int, ...], *, allow: bool, error: int) -> list[bytes]:
    """Allow or deny the call, if a value passes the test with the low half of its first argument; else the reverse."""
    matched, other = (_ALLOW, _ERRNO | error) if allow else (_ERRNO | error, _ALLOW)
    tests = [_jump(test, value, len(values) - place, 0) for place, value in enumerate(values)]
    return [
        _jump(_LOAD, _FIRST_ARGUMENT),
        *tests,
        _jump(_RETURN, other),
        *([_jump(_RETURN, matched)] if values else []),
    ]
