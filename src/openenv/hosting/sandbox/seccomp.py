"""A system call filter that denies what no program of a sandbox needs: a classic BPF program, in bytes.

The kernel runs the filter for each system call. Denied calls fail with EPERM, clone3 with ENOSYS, so that the C library
falls back to clone. So do calls of later kernels than this module knows, and calls of another architecture end the
process. Standard library only: it also runs inside.
"""

import ctypes
import platform
import struct
from collections.abc import Mapping

_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOTTY, ENOSYS, _ENOTSUP, EAFNOSUPPORT = 1, 25, 38, 95, 97
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 24, 32
"""Offsets in `struct seccomp_data`. An argument has 64 bits, its low half first."""
NAMESPACE_FLAGS = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""
_X32 = 0x40000000
"""Numbers from here on are those of the x32 ABI."""
_FREE = {"x86_64": (337, 424), "aarch64": (295, 424)}
"""Numbers from the first to below the second belong to no call so far. A later kernel may use them."""
_NEWEST = 469
"""The highest known number, that of file_setattr."""
LOCAL_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET and AF_INET6."""

DENIED: dict[str, tuple[int, int | None]] = {
    "_sysctl": (156, None),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "get_kernel_syms": (177, None),
    "get_mempolicy": (239, 236),
    "init_module": (175, 105),
    "io_setup": (206, 0),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "listmount": (458, 458),
    "lookup_dcookie": (212, None),
    "mbind": (237, 235),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "query_module": (178, None),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "shmget": (29, 194),
    "statmount": (457, 457),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
"""The denied system calls, and their numbers on x86_64 and aarch64.

Those of shared memory, semaphores and messages are among them: their objects outlive the process, and without a
namespace a number reaches those of other programs. io_setup takes from a number of requests that the machine shares.
"""
_OF_ATTRIBUTES = {
    "chown": (92, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "file_setattr": (469, 469),
    "fremovexattr": (199, 16),
    "fsetxattr": (190, 7),
    "lchown": (94, None),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
}
"""Calls that change owners and attributes of files, which Landlock does not hold back."""
_READ_ATTRIBUTES = {
    "fgetxattr": (193, 10),
    "flistxattr": (196, 13),
    "getxattr": (191, 8),
    "getxattrat": (464, 464),
    "lgetxattr": (192, 9),
    "listxattr": (194, 11),
    "listxattrat": (465, 465),
    "llistxattr": (195, 12),
}
"""Calls that read attributes of files, which Landlock does not hold back either."""
_OF_WATCHES = {"inotify_init": (253, None), "inotify_init1": (294, 26)}
"""Calls that watch what others do with files, also where Landlock hides these. A user can have few watches at one time.
Containers have files of their own, and may watch them."""
_UNNAMED_MEMORY = {"memfd_create": (319, 279)}
"""A call whose memory is counted by control groups alone: no limit of a process includes it, and it can be in transit
between processes. Programs have other ways where a kernel lacks it."""
_OF_MODES = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "futimesat": (261, None),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
}
"""The same for modes and times. Programs that copy files make these calls, and would fail without them."""
_OF_DISKS = {"sync": (162, 81), "syncfs": (306, 267)}
"""Calls that wait for the machine's disks, and make all wait."""
_OWN_PROCESS_ONLY = {
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "prlimit64": (302, 261),
    "sched_setattr": (314, 274),
}
"""Calls whose first argument is a process id: 0, the caller's own, is allowed."""
_CLONE, _SOCKET, _SOCKETPAIR, _CLONE3 = (56, 220), (41, 198), (53, 199), 435
_FCNTL, _IOCTL, _SETSOCKOPT = (72, 25), (16, 29), (54, 208)
LEASES = (1024, 1026)
"""F_SETLEASE and F_NOTIFY of fcntl. A lease makes a process wait that opens a file of the same user."""
SOL_SOCKET, SOCKET_FILTERS = 1, (26, 50, 51, 52)
"""SO_ATTACH_FILTER, SO_ATTACH_BPF and those for groups of sockets: programs in memory that is not charged."""
_TYPE_OF_IOCTL, _OF_FILE_SYSTEMS = 0xFF00, (0x5800, 0x6600, 0x7600, 0x9400)
"""The types X, f, v and 0x94 of ioctl change flags, versions and subvolumes through a file that is open for reading."""
_MACHINES = ("x86_64", "aarch64")
_AUDIT = (0xC000003E, 0xC00000B7)
"""The architectures, as the kernel names them."""


def is_supported() -> bool:
    """Whether there is a filter for this machine's processor."""
    return platform.machine() in _MACHINES


def deny_filter(*, is_apart: bool, is_same_user: bool, has_memory_group: bool) -> bytes:
    """The filter for this machine. Calls that wait for its disks do nothing.

    Args:
        is_apart: the program has namespaces of its own. It may then use local sockets and those of the internet, and
            read attributes of files.
        is_same_user: it has the user of the server. If it is not apart either, changes of files' modes and times do
            nothing, and those of owners and attributes fail.
        has_memory_group: a control group counts its memory.

    Raises:
        ValueError: for a processor without a filter.
    """
    attributes = is_apart or not is_same_user
    which = _MACHINES.index(platform.machine())
    program = [_jump(_LOAD, _ARCHITECTURE), _jump(_EQUAL, _AUDIT[which], 1, 0), _jump(_RETURN, _KILL)]
    program += [_jump(_LOAD, _NUMBER)]
    if platform.machine() == "x86_64":
        program += [_jump(_AT_LEAST, _X32, 0, 1), _jump(_RETURN, _KILL)]
    first, past = _FREE[platform.machine()]
    program += [_jump(_AT_LEAST, _NEWEST + 1, 2, 0), _jump(_AT_LEAST, past, 2, 0), _jump(_AT_LEAST, first, 0, 1)]
    program += [_jump(_RETURN, _ERRNO | ENOSYS)]
    for denied in _numbers({**DENIED, **_OF_WATCHES, **({} if attributes else _OF_ATTRIBUTES)}, which):
        program += _when(denied, [_jump(_RETURN, _ERRNO | _EPERM)])
    for denied in _numbers({} if is_apart else _READ_ATTRIBUTES, which):
        program += _when(denied, [_jump(_RETURN, _ERRNO | _ENOTSUP)])
    for ignored in _numbers(_OF_DISKS if attributes else {**_OF_DISKS, **_OF_MODES}, which):
        program += _when(ignored, [_jump(_RETURN, _ERRNO)])
    for missing in [_CLONE3, *_numbers({} if has_memory_group else _UNNAMED_MEMORY, which)]:
        program += _when(missing, [_jump(_RETURN, _ERRNO | ENOSYS)])
    flags = _argument(_FIRST_ARGUMENT, _ANY_BIT, (NAMESPACE_FLAGS,), allow=False, error=_EPERM)
    program += _when(_CLONE[which], flags)
    for numbers in _OWN_PROCESS_ONLY.values():
        program += _when(numbers[which], _argument(_FIRST_ARGUMENT, _EQUAL, (0,), allow=True, error=_EPERM))
    for numbers, families in ((_SOCKET, LOCAL_FAMILIES if is_apart else ()), (_SOCKETPAIR, LOCAL_FAMILIES[:1])):
        program += _when(numbers[which], _argument(_FIRST_ARGUMENT, _EQUAL, families, allow=True, error=EAFNOSUPPORT))
    program += _when(_FCNTL[which], _argument(_SECOND_ARGUMENT, _EQUAL, LEASES, allow=False, error=_EPERM))
    options = _argument(_THIRD_ARGUMENT, _EQUAL, SOCKET_FILTERS, allow=False, error=_EPERM)
    level = [_jump(_LOAD, _SECOND_ARGUMENT), _jump(_EQUAL, SOL_SOCKET, 1, 0), _jump(_RETURN, _ALLOW)]
    program += _when(_SETSOCKOPT[which], [*level, *options])
    if not attributes:
        types = _argument(_SECOND_ARGUMENT, _EQUAL, _OF_FILE_SYSTEMS, allow=False, error=_ENOTTY, mask=_TYPE_OF_IOCTL)
        program += _when(_IOCTL[which], types)
    return b"".join([*program, _jump(_RETURN, _ALLOW)])


def _numbers(calls: Mapping[str, tuple[int, int | None]], which: int) -> list[int]:
    """The numbers of these calls on an architecture that has them."""
    return sorted(number for numbers in calls.values() if (number := numbers[which]) is not None)


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


def _argument(
    offset: int, test: int, values: tuple[int, ...], *, allow: bool, error: int, mask: int | None = None
) -> list[bytes]:
    """Allow or deny the call, if a value passes the test with the low half of an argument; else the reverse.

    mask: the bits of the argument that are tested; None: all.
    """
    matched, other = (_ALLOW, _ERRNO | error) if allow else (_ERRNO | error, _ALLOW)
    tests = [_jump(test, value, len(values) - place, 0) for place, value in enumerate(values)]
    return [
        _jump(_LOAD, offset),
        *([] if mask is None else [_jump(_AND, mask)]),
        *tests,
        _jump(_RETURN, other),
        *([_jump(_RETURN, matched)] if values else []),
    ]
