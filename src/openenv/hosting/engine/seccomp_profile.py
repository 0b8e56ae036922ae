"""The sandbox's system call filter as a profile that container engines take."""

from typing import Any

from openenv.core.formats.json_text import json_text
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


def is_supported(architecture: str) -> bool:
    """Whether there is a profile for an engine's processor."""
    return architecture in _ARCHITECTURES


def seccomp_profile(architecture: str) -> str:
    """The profile, as JSON, of an engine on this processor. It denies what that of a sandbox does.

    Calls that concern another process, or watch files, are exceptions: a container has its own alone. Raises KeyError
    for a processor without a profile.
    """
    denied = [
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
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [_ARCHITECTURES[architecture]],
        "syscalls": denied,
    }
    return json_text(profile)


def _bits() -> list[int]:
    return [1 << place for place in range(32) if NAMESPACE_FLAGS >> place & 1]


def _test(index: int, comparison: str, value: int, **more: int) -> dict[str, Any]:
    """A test of one argument of a call."""
    return {"index": index, "op": f"SCMP_CMP_{comparison}", "value": value, **more}


def _deny(names: list[str], error: int, *tests: dict[str, Any]) -> dict[str, Any]:
    """A rule by which calls fail whose arguments pass all tests; without tests every call fails."""
    rule: dict[str, Any] = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": error}
    return {**rule, "args": list(tests)} if tests else rule
