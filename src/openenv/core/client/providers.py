"""The two provider interfaces: they start and stop a server for a client."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from openenv.core.errors import ContainerFault


class ExecResult(NamedTuple):
    """What a command in a container wrote, and how it ended."""

    exit_code: int
    output: str


class ContainerProvider(ABC):
    """Runs one container at a time. `EnvClient.from_docker_image` and `EnvClient(provider=...)` use it.

    Example:
        provider = LocalDockerProvider()
        base_url = provider.start_container("echo-env:latest")
        provider.wait_for_ready(base_url)
        ...
        provider.stop_container()
    """

    @abstractmethod
    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Start a container of `image` and return its base URL. Raises RuntimeError if that fails.

        port: on this machine; None for an unused one. env_vars: for the program in the container. Further keywords are
        specific to the provider.
        """

    @abstractmethod
    def stop_container(self) -> None:
        """Stop and remove the container. Does nothing without one."""

    @abstractmethod
    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Wait until the server is healthy. Raises TimeoutError after `timeout_s`."""

    def logs(self, tail: int = 50) -> str:
        """The last lines of the server's output. Raises ContainerFault if the provider has none."""
        raise ContainerFault(f"{type(self).__name__} keeps no log")

    def exec(self, command: Sequence[str]) -> ExecResult:
        """Run a command in the container. Raises ContainerFault if the provider cannot."""
        raise ContainerFault(f"{type(self).__name__} runs no commands in its container")

    @property
    def layers(self) -> dict[str, str]:
        """Each layer of isolation: `on`, or `off` with the reason. Empty where the provider does not know."""
        return {}

    def close(self) -> None:  # noqa: B027  optional: most providers hold nothing else
        """Release the resources that the provider holds besides its container."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RuntimeProvider(ABC):
    """Runs one server whose source it knows, such as a module or project. `EnvClient(provider=...)` uses it.

    Example:
        with UVProvider(project_path="my_env") as provider:
            provider.wait_for_ready()
    """

    @abstractmethod
    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Start the server and return its base URL. port: None for an unused one. env_vars: for the server."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server. Does nothing without one."""

    @abstractmethod
    def wait_for_ready(self, timeout_s: float = 30.0) -> None:
        """Wait until the server is healthy. Raises TimeoutError after `timeout_s`."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
