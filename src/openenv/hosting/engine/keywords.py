"""The keywords of `start_container`: ours, and those of the Docker SDK that do not contradict them."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from openenv.hosting.engine.connection import names_registry
from openenv.hosting.engine.isolation import Isolation

_ISOLATION = tuple(field.name for field in dataclasses.fields(Isolation))
_OWN = (*_ISOLATION, "pull", "command")
_REPLACED = {
    **dict.fromkeys(
        ("mem_limit", "memswap_limit", "mem_swappiness", "kernel_memory", "pids_limit", "oom_kill_disable"), "limits"
    ),
    **dict.fromkeys(("nano_cpus", "cpu_count", "cpu_percent", "cpu_period", "cpu_quota"), "limits"),
    **dict.fromkeys(("network_mode", "network_disabled", "publish_all_ports", "links"), "network"),
    "ports": "port",
    "environment": "env_vars",
    "privileged": "cap_add",
    "cap_drop": "cap_add",
}
"""Keywords of the SDK in whose place there is one of ours."""
_FIXED = {
    *("image", "name", "detach", "auto_remove", "isolation", "version", "lxc_conf", "use_config_proxy"),
    *("ipc_mode", "pid_mode", "uts_mode", "userns_mode", "cgroupns", "cgroup_parent", "restart_policy"),
}
"""Keywords of the SDK that the provider sets, or that would undo its isolation."""
_PULL = ("never", "missing")


class Keywords(NamedTuple):
    """The keywords of one start."""

    isolation: Isolation
    pull: str
    command: str | list[str] | None
    others: dict[str, Any]
    """Of the SDK."""


def read_keywords(image: str, given: Mapping[str, Any]) -> Keywords:
    """Sort the keywords of a start. Raises ValueError for those that are unknown, naming the known ones.

    `pull` is "missing" by default for an image whose name begins with its registry, else "never".
    """
    known = _known_to_sdk()
    for name in given:
        if name in _REPLACED:
            raise ValueError(f"{name}: give {_REPLACED[name]} in its place")
    unknown = given.keys() - known - set(_OWN)
    if unknown:
        names = ", ".join(sorted({*known, *_OWN}))
        raise ValueError(f"{', '.join(sorted(unknown))}: not among the keywords of a container, which are {names}")
    pull = given.get("pull", "missing" if names_registry(image) else "never")
    if pull not in _PULL:
        raise ValueError(f"pull={pull!r}: expected one of {', '.join(_PULL)}")
    isolation = Isolation(**{name: given[name] for name in _ISOLATION if name in given})
    return Keywords(isolation, pull, given.get("command"), {name: given[name] for name in given.keys() - set(_OWN)})


def merge_options(options: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The options with others of the same kind added: lists are joined, dictionaries united, the rest replaced."""
    merged = dict(options)
    for name, value in others.items():
        before = merged.get(name)
        if isinstance(before, list):
            merged[name] = [*before, *value]
        elif isinstance(before, dict) and isinstance(value, dict):
            merged[name] = {**before, **value}
        else:
            merged[name] = value
    return merged


def _known_to_sdk() -> set[str]:
    # an extra: `Engine` has found it
    from docker.models.containers import RUN_CREATE_KWARGS, RUN_HOST_CONFIG_KWARGS

    return {*RUN_CREATE_KWARGS, *RUN_HOST_CONFIG_KWARGS, "volumes"} - _REPLACED.keys() - _FIXED - set(_OWN)
