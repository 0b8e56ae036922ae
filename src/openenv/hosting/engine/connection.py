"""The connection to a container engine through its API, and what the engine can enforce."""

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from openenv.core.errors import ContainerFault
from openenv.installation import install_line

_TIMEOUT_S = 120.0
_LOCAL_SCHEMES = ("unix", "http+unix", "npipe")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_IGNORES_LIMITS = "--ignore-cgroups"


class Engine:
    """An engine with Docker's API. All of its errors are ContainerFault with a remedy."""

    def __init__(self, kind: str, url: str | None, remedy: str) -> None:
        """kind: its name in messages. url: its socket or address; None: what DOCKER_HOST says, else Docker's default.

        Raises ContainerFault if the SDK is missing, if no engine answers, or if it is on another machine, where its
        ports and sockets cannot be reached.
        """
        try:
            # an extra: not everybody runs containers
            import docker
        except ImportError:
            raise ContainerFault(f"containers need the Docker SDK: {install_line('docker')}") from None
        self.kind = kind
        self.url = url
        self._remedy = remedy
        address = url or docker.utils.kwargs_from_env().get("base_url", "unix:")
        if not _is_local(address):
            raise ContainerFault(
                f"{kind} is at {address}: a port or socket there cannot be reached from here. Start the container on "
                "that machine, and give the client its base_url"
            )
        with self.errors("connecting"):
            connect = docker.from_env if url is None else partial(docker.DockerClient, url)
            self.client: Any = connect(timeout=_TIMEOUT_S)
            self._info: dict[str, Any] = self.client.info()

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Raise errors of the engine as ContainerFault, with its message and what to do."""
        # installed, as the constructor has found
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        try:
            yield
        except (DockerException, RequestException) as error:
            raise ContainerFault(f"{self.kind}: {doing} failed: {error}. {self._remedy}") from error

    def profile_argument(self, profile: str) -> str:
        """What a container's option says of a seccomp profile."""
        return profile

    @property
    def architecture(self) -> str:
        """The processor, such as x86_64."""
        name: str = self._info.get("Architecture", "")
        return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)

    @property
    def has_seccomp(self) -> bool:
        """Whether it applies profiles of system calls."""
        return any("name=seccomp" in option for option in self._info.get("SecurityOptions") or ())

    def runtime_arguments(self, runtime: str) -> list[str]:
        """How the engine calls a runtime. Raises ContainerFault if it has none of that name."""
        runtimes = self._info.get("Runtimes") or {}
        if runtime not in runtimes:
            raise ContainerFault(
                f"{self.kind} has no runtime {runtime!r}, but {', '.join(sorted(runtimes))}. Add it: "
                "https://gvisor.dev/docs/user_guide/quick_start/docker"
            )
        return runtimes[runtime].get("runtimeArgs") or []

    def reason_against(self, limit: str, runtime: str | None) -> str:
        """Why a limit (memory, processes or cpu) would not be enforced; empty if it is."""
        if runtime is not None and _IGNORES_LIMITS in self.runtime_arguments(runtime):
            return f"the runtime {runtime} is called with {_IGNORES_LIMITS}"
        flag = {"memory": "MemoryLimit", "processes": "PidsLimit", "cpu": "CpuCfsQuota"}[limit]
        return "" if self._info.get(flag) else f"{self.kind} reports {flag} as off: its control groups are missing"

    def image(self, name: str, pull: str) -> Any:
        """The image of that name, pulled if it is absent and `pull` is "missing". Raises ContainerFault."""
        from docker.errors import ImageNotFound

        with self.errors(f"looking for the image {name}"):
            try:
                return self.client.images.get(name)
            except ImageNotFound:
                if pull != "missing":
                    raise ContainerFault(
                        f"{self.kind} has no image {name!r}, and it was not to be pulled. Build it, or give "
                        'pull="missing" to get it from its registry'
                    ) from None
        with self.errors(f"pulling {name}"):
            return self.client.images.pull(*_repository_and_tag(name))

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def _is_local(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme in _LOCAL_SCHEMES or parts.hostname in _LOOPBACK


def names_registry(image: str) -> bool:
    """Whether an image's name begins with the host of its registry, such as registry.hf.space/a-b:latest."""
    host, slash, _ = image.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")


def _repository_and_tag(image: str) -> tuple[str, str | None]:
    """The two parts of a name; without a tag the SDK would pull all tags."""
    if "@" in image:
        return image, None
    folder, slash, last = image.rpartition("/")
    name, _, tag = last.partition(":")
    return f"{folder}{slash}{name}", tag or "latest"
