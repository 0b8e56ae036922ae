"""The sandbox's system call filter as a profile that container engines take."""

import json
from typing import Any

from openenv.core.sandbox.seccomp import DENIED, EAFNOSUPPORT, ENOSYS, LOCAL_FAMILIES, NAMESPACE_FLAGS

_EPERM = 1
_ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
"""How engines name a processor, and how profiles do. Calls of another architecture end the process."""


def is_supported(architecture: str) -> bool:
    """Whether there is a profile for an engine's processor."""
    return architecture in _ARCHITECTURES


def seccomp_profile(architecture: str) -> str:
    """The profile, as JSON, of an engine on this processor. It denies what `deny_filter(sockets=True)` denies.

    Calls that concern another process are an exception: a container has its own processes alone. Raises KeyError for a
    processor without a profile.
    """
    denied = [
        _deny([*DENIED], _EPERM),
        _deny(["clone3"], ENOSYS),
        *(_deny(["clone"], _EPERM, value=flag, valueTwo=flag, op="SCMP_CMP_MASKED_EQ") for flag in _bits()),
        _deny(["socket"], EAFNOSUPPORT, value=max(LOCAL_FAMILIES), op="SCMP_CMP_GT"),
        *(
            _deny(["socket"], EAFNOSUPPORT, value=family, op="SCMP_CMP_EQ")
            for family in range(max(LOCAL_FAMILIES))
            if family not in LOCAL_FAMILIES
        ),
    ]
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [_ARCHITECTURES[architecture]],
        "syscalls": denied,
    }
    return json.dumps(profile)


def _bits() -> list[int]:
    return [1 << place for place in range(32) if NAMESPACE_FLAGS >> place & 1]


def _deny(names: list[str], error: int, **first_argument: Any) -> dict[str, Any]:
    """A rule by which calls fail. first_argument: the test of it, without which every call fails."""
    rule: dict[str, Any] = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": error}
    return {**rule, "args": [{"index": 0, **first_argument}]} if first_argument else rule
