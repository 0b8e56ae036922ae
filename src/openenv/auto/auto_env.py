"""Clients by the name of their environment: one environment, or many that are stepped together."""

import contextlib
import json
import logging
import shutil
import sys
import urllib.request
from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

from openenv.auto.discovery import EnvironmentInfo, check_name, environments, find_environment
from openenv.auto.resolver import resolve
from openenv.core.client.owned_server import BoundProvider
from openenv.core.client.providers import ContainerProvider
from openenv.core.env_client import EnvClient
from openenv.core.generic_client import GenericEnvClient
from openenv.core.utils import check_headers, check_options, check_type
from openenv.core.utils import hf_space_subdomain as hf_space_subdomain
from openenv.core.utils import run_async_safely as run_async_safely
from openenv.formats.text_file import printable
from openenv.hosting.hub import HUB, Space, hub_endpoint, require_trust
from openenv.hosting.hub import OPENENV_TRUST_REMOTE_CODE as OPENENV_TRUST_REMOTE_CODE
from openenv.hosting.hub import RemoteCodeRefused as RemoteCodeRefused
from openenv.hosting.local_process import LocalServer
from openenv.hosting.runtime.subprocess_tool import run_tool

if TYPE_CHECKING:
    from openenv.core.vector.env import Autoreset, VectorEnv


log = logging.getLogger(__name__)

_INSTALL_TIMEOUT_S = 900.0


def install_space(space: Space, *, trust_remote_code: bool) -> EnvironmentInfo:
    """Return the environment of a Space, after installing its package where that is not installed.

    Raises RemoteCodeRefused where the installation needs `trust_remote_code` or the environment variable
    OPENENV_TRUST_REMOTE_CODE=1, and ImportError where the package contains no environment.
    """
    found = _find_installed(space)
    if found is not None:
        return found
    otherwise = "pass skip_install=True to use dictionaries instead of its classes"
    require_trust(space, trust_remote_code=trust_remote_code, otherwise=otherwise)
    log.info("installing %s", space.repository)
    uv = shutil.which("uv")
    pip = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    remedy = "Does the Space exist, and is it a Python package?"
    run_tool(*pip, space.repository, remedy=remedy, timeout_s=_INSTALL_TIMEOUT_S)
    found = _find_installed(space)
    if found is None:
        raise ImportError(f"{space.repo_id} was installed, but it contains no package openenv-... with a client module")
    return found


def _find_installed(space: Space) -> EnvironmentInfo | None:
    """Return the environment that was installed from the Space, or None."""
    url = space.repository.removeprefix("git+")
    return next((info for info in environments().values() if (info.source or "").rstrip("/") == url), None)


_SPACE_TIMEOUT_S = 5.0

AnyClient = EnvClient[Any, Any, Any]


class AutoEnv:
    """Creates the client of a named environment. All methods are class methods.

    Example:
        with AutoEnv.from_env("echo") as env:
            env.reset()
            env.step(AutoAction.from_env("echo")(message="hello"))
    """

    def __init__(self) -> None:
        raise TypeError("AutoEnv has no instances: call AutoEnv.from_env(name)")

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
        """Return a client of a named environment. It may be used as it is, or awaited.

        Args:
            name: a bundled or installed environment (`echo`, `echo-env`), a Hugging Face Space (`owner/name`, or the
                address of its page), or a folder with openenv.yaml, MODULE:CLASS, FILE.py:CLASS, the URL of a server,
                docker:IMAGE. Of these last the server is started now, because the client's classes come from its
                schemas.
            base_url: the server to connect to. Without it, the first call of the client starts a server and `close()`
                stops it: a container of docker_image; with a container_provider, a container of the environment's own
                image; a local process for a bundled environment. A Space is used where it runs at the Hub, else from
                its image.
            wait_timeout: seconds until that server must answer.
            env_vars: environment variables of that server.
            trust_remote_code: allow the installation of a Space's package.
            skip_install: install and import nothing; the client then sends and returns dictionaries.
            kwargs: arguments of the client, or of the provider of its container.

        Raises:
            UnknownEnvironment: for a name that none has. It is a ValueError.
            RemoteCodeRefused: for a Space's package without trust_remote_code. It is a ValueError.
            ImportError: without the libraries of the environment.
        """
        check_type("base_url", base_url, str, "the URL of a server", optional=True)
        check_headers(kwargs.get("headers"))
        check_name(name)
        container = {"env_vars": env_vars or {}, "wait_timeout": wait_timeout, **kwargs}
        is_elsewhere = base_url is not None or docker_image is not None
        # where nothing is installed, the name of what runs elsewhere need not be known
        source = None if skip_install and is_elsewhere else resolve(name)
        if source is not None and source.kind not in ("package", "space"):
            return _client_by_schema(name, base_url, env_vars, kwargs)
        info = None if source is None else source.info
        if source is not None and source.space is not None:
            if not skip_install:
                info = install_space(source.space, trust_remote_code=trust_remote_code)
            if not is_elsewhere and container_provider is None:
                base_url = _running_url(source.space)
            docker_image = docker_image or source.space.image()
        client = GenericEnvClient if skip_install or info is None else info.client_class
        if base_url is not None:
            return client(base_url=base_url, **kwargs)
        is_here = docker_image is None and container_provider is None
        if source is not None and info is not None and info.server is not None and is_here:
            if info.missing:
                raise ImportError(f"environment {info.key!r} needs an extra to run here: {info.missing}")
            server = BoundProvider(
                LocalServer(info.server, source.options), env_vars=env_vars, wait_timeout=wait_timeout
            )
            return client(provider=server, **kwargs)
        if docker_image is None:
            assert info is not None
            docker_image = info.default_image
        return client.from_docker_image(docker_image, container_provider, **container)

    from_hub = from_env
    """Alias of `from_env`."""

    @classmethod
    def get_env_class(cls, name: str) -> type[AnyClient]:
        """Return the client class of a bundled or installed environment. Raises UnknownEnvironment, ImportError."""
        return find_environment(name).client_class

    @classmethod
    def get_env_info(cls, name: str) -> dict[str, Any]:
        """Return the package, classes and manifest of an environment. Raises UnknownEnvironment, ImportError."""
        info = find_environment(name)
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
            print(printable(f"{info.key:<16} {info.package} {info.version:<10} {info.description}"))


def make_vec(
    name: str,
    num_envs: int,
    *,
    base_url: str | None = None,
    autoreset: "Autoreset" = "next_step",
    num_sessions: int = 1,
    options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> "VectorEnv":
    """Return `num_envs` environments that are stepped together, as a `gymnasium.vector.VectorEnv`.

    Example:
        with openenv.make_vec("openspiel", 256, options={"game_name": "tic_tac_toe"}) as envs:
            observations, infos = envs.reset(seed=7)

    Raises what both functions raise.

    Args:
        name: as in `AutoEnv.from_env`. Without base_url, a server is started and `close()` stops it.
        autoreset, num_sessions, options: as in `EnvClient.vector`.
        kwargs: arguments of the client.
    """
    check_type("num_envs", num_envs, Integral, "a whole number from 1 on")
    check_type("num_sessions", num_sessions, Integral, "a whole number from 1 on")
    check_options(options)
    client = AutoEnv.from_env(name, base_url=base_url, **kwargs)
    with contextlib.ExitStack() as on_error:
        on_error.callback(client.close)
        envs = client.vector(num_envs, autoreset=autoreset, num_sessions=num_sessions, options=options)
        on_error.pop_all()
    envs.after_close.append(client.close)
    return envs


def _client_by_schema(
    name: str, base_url: str | None, env_vars: Mapping[str, str] | None, kwargs: dict[str, Any]
) -> AnyClient:
    """A client with the classes of its server's schemas. It stops a server that was started for it."""
    from openenv.auto.environment import named_environment  # loads an HTTP client

    named = named_environment(name)
    provider = None if base_url is not None else named.provider(env_vars=env_vars)
    with contextlib.ExitStack() as on_error:
        if provider is not None:
            on_error.callback(provider.stop)
            base_url = provider.start()
            provider.wait_for_ready()
        url = base_url or named.url
        assert url is not None
        client = named.served_at(url, headers=kwargs.get("headers")).client_class(url, provider=provider, **kwargs)
        on_error.pop_all()
    return client


def _running_url(space: Space) -> str | None:
    """URL of the Space's server, if it runs at the Hub; another Hub than huggingface.co says where that is."""
    with contextlib.suppress(OSError):
        url: str | None = space.base_url
        if hub_endpoint() != HUB:
            about = f"{hub_endpoint()}/api/spaces/{space.repo_id}"
            with urllib.request.urlopen(about, timeout=_SPACE_TIMEOUT_S) as response:
                url = json.load(response).get("host")
        if url is not None:
            with urllib.request.urlopen(f"{url}/health", timeout=_SPACE_TIMEOUT_S):
                return url
    return None
