"""How a container is kept apart from its machine: all layers are on by default, and each can be loosened by name."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from openenv.core.errors import ContainerFault
from openenv.hosting.engine.connection import Engine
from openenv.hosting.engine.seccomp_profile import is_supported, seccomp_profile
from openenv.hosting.sandbox.limits import check_limits

_MIB = 1 << 20
_LEAST = {
    "memory_bytes": 16 * _MIB,
    "processes": 2,
    "open_files": 16,
    "file_bytes": 4096,
    "tmp_bytes": 4096,
    "log_bytes": 4096,
}
_ROOT = ("", "0", "root")
_USER = "1000:1000"
_SHARED_NETWORKS = ("host", "container")
_WITHOUT_NETWORK = "--network=none"
_WITH_SOCKETS = {"--host-uds=all", "--host-uds=create"}
_OWN_KERNEL = "runsc"
"""gVisor: system calls are answered by a kernel of its own."""


@dataclass(frozen=True, kw_only=True)
class ContainerLimits:
    """What a container may use. Raises ValueError, naming the field, for a limit in which nothing can run.

    None leaves a limit out, where an engine or runtime cannot enforce it.
    """

    memory_bytes: int | None = 2 << 30
    """Memory of all its processes, of `/tmp` and of shared memory. There is no swap."""
    processes: int | None = 512
    """Processes and threads at one time."""
    cpus: float | None = 1.0
    """Processors: 0.5 is half the time of one."""
    open_files: int = 4096
    """Open file descriptors of each process."""
    file_bytes: int | None = 256 * _MIB
    """Size of one file, also of those in volumes."""
    tmp_bytes: int = 256 * _MIB
    """Size of `/tmp`, and of shared memory, each."""
    log_bytes: int = 16 * _MIB
    """Output that the engine keeps, the newest."""

    def of_each_process(self) -> dict[str, int]:
        """Limits that the kernel has for each process, by their names there."""
        files = {} if self.file_bytes is None else {"fsize": self.file_bytes}
        return {"nofile": self.open_files, "core": 0, "msgqueue": 0, **files}

    def __post_init__(self) -> None:
        check_limits(self, {name: low for name, low in _LEAST.items() if getattr(self, name) is not None})


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """The layers around a container."""

    limits: ContainerLimits = field(default_factory=ContainerLimits)
    network: str = "bridge"
    """`none`: the server listens on a Unix socket that only this machine reaches. Else the name of a network."""
    runtime: str | None = None
    """Such as runsc (gVisor); None: the engine's own."""
    read_only: bool = True
    """Whether nothing but `/tmp` can be written."""
    seccomp: bool | None = None
    """Whether system calls are filtered by our profile. None: where the runtime applies profiles."""
    user: str | None = None
    """Of its programs. None: the image's, or 1000 in place of root."""
    cap_add: Sequence[str] = ()
    """Capabilities of Linux that are kept, such as CHOWN."""
    new_privileges: bool = False
    """Whether programs may gain rights, as by sudo."""

    def __post_init__(self) -> None:
        if self.network.partition(":")[0] in _SHARED_NETWORKS:
            raise ValueError(f"network={self.network!r} would share the loopback interface. Use none, or a network")

    def layers(self, engine: Engine, image_user: str) -> dict[str, str]:
        """Each layer: `on`, or `off` with the reason. Raises ContainerFault for what the engine would not enforce."""
        limits = self.limits
        is_root = self.user_of(image_user).partition(":")[0] in _ROOT
        return {
            "namespaces": "on" if self.runtime is None else f"on: the runtime {self.runtime}",
            "user": "off: the programs are root in the container" if is_root else "on",
            "seccomp": self._seccomp_layer(engine),
            "landlock": "off: engines do not apply it",
            "memory": self._limit_layer(engine, "memory", limits.memory_bytes),
            "processes": self._limit_layer(engine, "processes", limits.processes),
            "cpu": self._limit_layer(engine, "cpu", limits.cpus),
            "session size": "on" if self.read_only else "off: the root has no limit of size",
            "read-only root": "on" if self.read_only else "off: not asked for",
            "capabilities": "off: " + ", ".join(self.cap_add) if self.cap_add else "on",
            "no new privileges": "off: not asked for" if self.new_privileges else "on",
            "network": self._network_layer(engine),
        }

    def options(self, engine: Engine, image_user: str) -> dict[str, Any]:
        """The SDK's keywords for these layers."""
        # installed, as the engine has found
        from docker.types import LogConfig, Ulimit

        limits = self.limits
        security = [] if self.new_privileges else ["no-new-privileges"]
        if self._seccomp_layer(engine) == "on":
            security.append(f"seccomp={engine.profile_argument(seccomp_profile(engine.architecture))}")
        size = {"mem_limit": limits.memory_bytes, "memswap_limit": limits.memory_bytes, "pids_limit": limits.processes}
        cpus = {} if limits.cpus is None else {"nano_cpus": int(limits.cpus * 1e9)}
        return {
            **{name: value for name, value in size.items() if value is not None},
            **cpus,
            **({} if self.runtime is None else {"runtime": self.runtime}),
            "network_mode": self.network,
            "read_only": self.read_only,
            "user": self.user_of(image_user),
            "cap_drop": ["ALL"],
            "cap_add": list(self.cap_add),
            "security_opt": security,
            "init": True,
            "tmpfs": {"/tmp": f"size={limits.tmp_bytes},mode=1777,nosuid,nodev,exec"},
            "shm_size": limits.tmp_bytes,
            "ulimits": [Ulimit(name=name, soft=limit, hard=limit) for name, limit in limits.of_each_process().items()],
            "log_config": LogConfig(type="json-file", config={"max-size": str(limits.log_bytes), "max-file": "1"}),
        }

    def user_of(self, image_user: str) -> str:
        """The user of its programs."""
        if self.user is not None:
            return self.user
        return _USER if image_user.partition(":")[0] in _ROOT else image_user

    def _seccomp_layer(self, engine: Engine) -> str:
        if self.seccomp is False:
            return "off: not asked for, the engine's own profile holds"
        reason = ""
        if self.runtime == _OWN_KERNEL:
            reason = f"the kernel of {_OWN_KERNEL} answers system calls"
            if self.seccomp is None:
                return f"off: {reason}"
        elif not engine.has_seccomp:
            reason = f"{engine.kind} applies no profiles"
        elif not is_supported(engine.architecture):
            reason = f"there is no profile for the processor {engine.architecture}"
        if reason:
            raise ContainerFault(
                f"the seccomp profile would not be enforced: {reason}. Give seccomp=False to go without"
            )
        return "on"

    def _network_layer(self, engine: Engine) -> str:
        arguments = [] if self.runtime is None else engine.runtime_arguments(self.runtime)
        if self.network != "none":
            if _WITHOUT_NETWORK in arguments:
                raise ContainerFault(
                    f"no port would be reached: the runtime {self.runtime} has {_WITHOUT_NETWORK}. Leave that out"
                )
            return f"off: the network {self.network} leads out"
        if self.runtime == _OWN_KERNEL and not _WITH_SOCKETS & set(arguments):
            raise ContainerFault(
                f"the server's Unix socket would stay in {_OWN_KERNEL}. Call it with {min(_WITH_SOCKETS)}, which "
                "versions from 2023 on take, or use a network"
            )
        return "on"

    def _limit_layer(self, engine: Engine, layer: str, limit: float | None) -> str:
        if limit is None:
            return "off: not asked for"
        reason = engine.reason_against(layer, self.runtime)
        if reason:
            raise ContainerFault(
                f"the limit of {layer} would not be enforced: {reason}. Give ContainerLimits with None for it"
            )
        return "on"
