"""The sandbox's system call filter as a profile that container engines take."""

from typing import Any

from openenv.formats.json_text import json_text
from openenv.hosting.sandbox.seccomp import (
    DENIED,
    EAFNOSUPPORT,
    ENOSYS,
    LEASES,
    LOCAL_FAMILIES,
    NAMESPACE_FLAGS,
    SOCKET_FILTERS,
    SOL_SOCKET,
)

_EPERM = 1
_ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
"""How engines name a processor, and how profiles do. Calls of another architecture end the process."""

_ALLOWED = """
accept accept4 access alarm arch_prctl bind brk cachestat capget capset chdir chmod chown clock_getres clock_gettime
clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl
epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64
fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchownat fdatasync fgetxattr file_getattr
file_setattr flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue
futex_wait futex_waitv futex_wake futimesat get_robust_list getcpu getcwd getdents getdents64 getegid geteuid getgid
getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit
getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr getxattrat inotify_add_watch
inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_submit ioctl
ioprio_get kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen
listxattr listxattrat llistxattr lremovexattr lseek lsetxattr lsm_get_self_attr lsm_list_modules
lstat madvise map_shadow_stack membarrier memfd_create mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall
mmap mprotect mq_getsetattr mq_notify mq_timedreceive mq_timedsend mremap mseal msync munlock munlockall munmap
nanosleep newfstatat open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free
pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 process_madvise process_mrelease pselect6 pwrite64
pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages removexattr
removexattrat rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask
rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max
sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select sendfile sendmmsg
sendmsg sendto set_robust_list set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid setregid
setresgid setresuid setreuid setrlimit setsid setuid setxattr setxattrat shutdown sigaltstack signalfd signalfd4
splice stat statfs statx symlink symlinkat sync sync_file_range sync_file_range2 syncfs sysinfo tee tgkill time
timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
timerfd_settime times tkill truncate umask uname unlink unlinkat uretprobe utime utimensat utimes vfork vmsplice
wait4 waitid write writev
"""
"""The calls that are allowed with any arguments: those of Linux 6.17, but the denied ones and those with rules of their
own. Names that an engine's library does not know are skipped, and so are those of other processors."""


def is_supported(architecture: str) -> bool:
    """Whether there is a profile for an engine's processor."""
    return architecture in _ARCHITECTURES


def seccomp_profile(architecture: str) -> str:
    """The profile, as JSON, of an engine on this processor. It denies what that of a sandbox does.

    Calls that concern another process, or watch files, are exceptions: a container has its own alone. A call that it
    does not name, such as that of a later kernel, is missing (ENOSYS). Raises KeyError for a processor without a
    profile.
    """
    # An engine's library has no rule for "other arguments": what is allowed is named beside what is denied.
    lowest, highest = min(SOCKET_FILTERS), max(SOCKET_FILTERS)
    rules = [
        _allow(_ALLOWED.split()),
        _allow(["clone"], _test(0, "MASKED_EQ", NAMESPACE_FLAGS, valueTwo=0)),
        *(_allow(["socket"], _test(0, "EQ", family)) for family in LOCAL_FAMILIES),
        _allow(["socketpair"], _test(0, "EQ", LOCAL_FAMILIES[0])),
        _allow(["fcntl"], _test(1, "LT", min(LEASES))),
        _allow(["fcntl"], _test(1, "GT", max(LEASES))),
        *(_allow(["fcntl"], _test(1, "EQ", command)) for command in _between(LEASES)),
        _allow(["setsockopt"], _test(1, "NE", SOL_SOCKET)),
        _allow(["setsockopt"], _test(1, "EQ", SOL_SOCKET), _test(2, "LT", lowest)),
        _allow(["setsockopt"], _test(1, "EQ", SOL_SOCKET), _test(2, "GT", highest)),
        *(
            _allow(["setsockopt"], _test(1, "EQ", SOL_SOCKET), _test(2, "EQ", option))
            for option in _between(SOCKET_FILTERS)
        ),
        _deny([*DENIED], _EPERM),
        _deny(["clone3"], ENOSYS),
        *(_deny(["clone"], _EPERM, _test(0, "MASKED_EQ", flag, valueTwo=flag)) for flag in _bits()),
        _deny(["socket"], EAFNOSUPPORT, _test(0, "GT", max(LOCAL_FAMILIES))),
        *(
            _deny(["socket"], EAFNOSUPPORT, _test(0, "EQ", family))
            for family in range(max(LOCAL_FAMILIES))
            if family not in LOCAL_FAMILIES
        ),
        _deny(["socketpair"], EAFNOSUPPORT, _test(0, "NE", LOCAL_FAMILIES[0])),
        *(_deny(["fcntl"], _EPERM, _test(1, "EQ", command)) for command in LEASES),
        *(
            _deny(["setsockopt"], _EPERM, _test(1, "EQ", SOL_SOCKET), _test(2, "EQ", option))
            for option in SOCKET_FILTERS
        ),
    ]
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": ENOSYS,
        "architectures": [_ARCHITECTURES[architecture]],
        "syscalls": rules,
    }
    return json_text(profile)


def _bits() -> list[int]:
    return [1 << place for place in range(32) if NAMESPACE_FLAGS >> place & 1]


def _test(index: int, comparison: str, value: int, **more: int) -> dict[str, Any]:
    """A test of one argument of a call."""
    return {"index": index, "op": f"SCMP_CMP_{comparison}", "value": value, **more}


def _between(values: tuple[int, ...]) -> list[int]:
    """The numbers between the lowest and the highest of these that are none of them."""
    return [value for value in range(min(values), max(values)) if value not in values]


def _allow(names: list[str], *tests: dict[str, Any]) -> dict[str, Any]:
    """A rule by which calls are made whose arguments pass all tests; without tests every call is made."""
    return {"names": names, "action": "SCMP_ACT_ALLOW", "args": list(tests)}


def _deny(names: list[str], error: int, *tests: dict[str, Any]) -> dict[str, Any]:
    """A rule by which calls fail whose arguments pass all tests; without tests every call fails."""
    rule: dict[str, Any] = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": error}
    return {**rule, "args": list(tests)} if tests else rule
