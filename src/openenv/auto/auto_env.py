"""A client by the name of its environment."""

import contextlib
import urllib.request
from typing import Any

from openenv.auto.discovery import EnvironmentInfo, environments, find
from openenv.auto.installation import installed_space
from openenv.core.containers.hub import Space
from openenv.core.containers.runtime.module_provider import ModuleProvider
from openenv.core.containers.runtime.owned import Prepared
from openenv.core.containers.runtime.providers import ContainerProvider
from openenv.core.env_client import EnvClient
from openenv.core.generic_client import GenericEnvClient

_SPACE_TIMEOUT_S = 5.0

AnyClient = EnvClient[Any, Any, Any]


class AutoEnv:
    """Makes the right client for a name. Not made itself: its methods are class methods.

    Example:
        with AutoEnv.from_env("echo") as env:
            env.reset()
            env.step(AutoAction.from_env("echo")(message="hello"))
    """

    def __init__(self) -> None:
        raise TypeError("AutoEnv is not made: call AutoEnv.from_env(name)")

    @classmethod
    def from_env(
        cls,
        name: str,
        base_url: str | None = None,
        docker_image: str | None = None,
        container_provider: ContainerProvider | None = None,
        wait_timeout: float = 30.0,
        env_vars: dict[str, str] | None = None,
        trust_remote_code: bool = False,
        skip_install: bool = False,
        **kwargs: Any,
    ) -> AnyClient:
        """A client of the environment `name`, to be used as it is or awaited, like any other.

        name: of a bundled or installed environment (`echo`, `echo-env`), or a Space (`owner/name`, or its page). With
        base_url the client connects there. Otherwise it owns a server, which its first verb starts and `close()` stops:
        a container of docker_image, or of the environment's own image when a container_provider is given; for a bundled
        environment a process of this machine; for a Space the one that runs at the Hub, else its image.

        wait_timeout: seconds until that server must answer. env_vars: for it. trust_remote_code: the package of a Space
        may be installed. skip_install: nothing is installed or imported, and the client speaks in dictionaries.
        Further keywords go to the client, or to the provider of its container.

        Raises UnknownEnvironment (a ValueError), RemoteCodeRefused (a ValueError), ImportError.
        """
        container = {"env_vars": env_vars or {}, "wait_timeout": wait_timeout, **kwargs}
        if "/" in name:
            space = Space(name)
            client = _client(None if skip_install else installed_space(space, trust_remote_code=trust_remote_code))
            if base_url is None and docker_image is None and container_provider is None and _runs(space):
                base_url = space.base_url
            docker_image = docker_image or space.image()
            info = None
        else:
            info = None if skip_install and (base_url or docker_image) else find(name)
            client = _client(None if skip_install else info)
        if base_url is not None:
            return client(base_url=base_url, **kwargs)
        if info is not None and info.server is not None and docker_image is None and container_provider is None:
            if info.missing:
                raise ImportError(f"environment {info.key!r} needs more to run here: pip install '{info.missing}'")
            server = Prepared(ModuleProvider(info.server), env_vars=env_vars, wait_timeout=wait_timeout)
            return client(provider=server, **kwargs)
        if docker_image is None:
            assert info is not None
            docker_image = info.default_image
        return client.from_docker_image(docker_image, container_provider, **container)

    @classmethod
    def from_hub(
        cls,
        name: str,
        base_url: str | None = None,
        docker_image: str | None = None,
        container_provider: ContainerProvider | None = None,
        wait_timeout: float = 30.0,
        env_vars: dict[str, str] | None = None,
        trust_remote_code: bool = False,
        skip_install: bool = False,
        **kwargs: Any,
    ) -> AnyClient:
        """`from_env` by another name."""
        return cls.from_env(
            name, base_url, docker_image, container_provider, wait_timeout, env_vars, trust_remote_code, skip_install,
            **kwargs,
        )  # fmt: skip

    @classmethod
    def get_env_class(cls, name: str) -> type[AnyClient]:
        """The client class of a bundled or installed environment. Raises UnknownEnvironment, ImportError."""
        return find(name).client_class

    @classmethod
    def get_env_info(cls, name: str) -> dict[str, Any]:
        """What is known of a bundled or installed environment. Raises UnknownEnvironment, ImportError."""
        info = find(name)
        return {
            "env_key": info.key,
            "name": info.name,
            "package": info.package,
            "version": info.version,
            "description": info.description,
            "env_class": info.client_class.__name__,
            "action_class": info.action_class.__name__,
            "observation_class": info.observation_class.__name__,
            "module": info.client_module,
            "default_image": info.default_image,
            "spec_version": info.manifest.get("spec_version"),
        }

    @classmethod
    def list_environments(cls) -> None:
        """Print the bundled and installed environments."""
        for info in environments().values():
            print(f"{info.key:<16} {info.package} {info.version:<10} {info.description}")


def _client(info: EnvironmentInfo | None) -> type[AnyClient]:
    return GenericEnvClient if info is None else info.client_class


def _runs(space: Space) -> bool:
    """Whether the Space answers at the Hub now."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{space.base_url}/health", timeout=_SPACE_TIMEOUT_S):
        return True
    return False
