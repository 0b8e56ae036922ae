"""The two interfaces of whoever starts and stops a server for a client."""

from abc import ABC, abstractmethod
from typing import Any, Self


class ContainerProvider(ABC):
    """Runs one container at a time. `EnvClient.from_docker_image` and `EnvClient(provider=...)` drive it.

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
        """Start a container of `image` and return its base URL. Raises RuntimeError when that fails.

        port: where it listens on this machine; None takes a free one. env_vars: for the program in the container.
        Further keywords belong to the provider.
        """

    @abstractmethod
    def stop_container(self) -> None:
        """Stop and remove the container. Without one it does nothing."""

    @abstractmethod
    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Return when the server answers. Raises TimeoutError when it does not in `timeout_s`."""

    def close(self) -> None:  # noqa: B027  only a provider that holds more than its container has something to do
        """Release what the provider holds besides its container."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RuntimeProvider(ABC):
    """Runs one server that is no container, or whose container it knows. `EnvClient(provider=...)` drives it.

    Example:
        with UVProvider(project_path="my_env") as provider:
            provider.wait_for_ready()
    """

    @abstractmethod
    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Start the server and return its base URL. port: None takes a free one. env_vars: for the server."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server. Without one it does nothing."""

    @abstractmethod
    def wait_for_ready(self, timeout_s: float = 30.0) -> None:
        """Return when the server answers. Raises TimeoutError when it does not in `timeout_s`."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
