"""Environments by any of their names: what serves one, its typed client, and its text interface."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openenv.auto.discovery import EnvironmentInfo, find_environment
from openenv.auto.environment_folder import folder_target
from openenv.auto.resolver import IMAGE, resolve
from openenv.auto.schema_client import ServerDescription, describe_server
from openenv.core.client.owned_server import BoundProvider, OwnedServer
from openenv.core.client.providers import RuntimeProvider
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Observation
from openenv.envs import catalog
from openenv.hosting.fleet import Fleet
from openenv.hosting.local_process import LocalServer
from openenv.hosting.runtime.docker import LocalDockerProvider
from openenv.schema.message_schema import message_schema
from openenv.text.derived import DerivedText
from openenv.text.interface import TextInterface

_START_TIMEOUT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class ServedEnvironment:
    """An environment on a running server, or on several."""

    base_url: str
    client_class: type[EnvClient[Any, Any, Any]]
    text: TextInterface[Any, Any]
    headers: Mapping[str, str]
    """Sent with each connection."""
    further_urls: Sequence[str] = ()
    """Of further servers with the same environment."""
    fleet: Fleet | None = None
    """Its servers, where they are processes that are started again when they end."""

    @property
    def base_urls(self) -> list[str]:
        """Of all its servers."""
        return [self.base_url, *self.further_urls]

    @property
    def observation_class(self) -> type[Observation]:
        """The class of its observations."""
        declared: type[Observation] = self.client_class._message_classes[1]
        return declared

    def client(self, **kwargs: Any) -> EnvClient[Any, Any, Any]:
        """A new client of the server. kwargs: arguments of the client's class."""
        client: EnvClient[Any, Any, Any] = self.client_class(
            **{"base_url": self.base_url, "headers": dict(self.headers), **kwargs}
        )
        return client


@dataclass(frozen=True, kw_only=True)
class NamedEnvironment:
    """An environment that a name stands for. Nothing is started or imported before it is served."""

    name: str
    url: str | None = None
    """Of a server that runs already."""
    served_as: str | None = None
    """What `openenv.auto.serving` takes: a folder, MODULE:CLASS, FILE.py:CLASS, or a name of another standard."""
    image: str | None = None
    info: EnvironmentInfo | None = None
    """Of a bundled or installed environment."""
    text: str | None = None
    """The class of its text interface, as MODULE:CLASS or FILE.py:CLASS. None: the environment's own, or the derived
    one."""
    success_return: float | None = None
    """The return from which an episode is a success. None: what the environment declares."""
    options: Sequence[str] = ()
    """Options of its server, such as `--game chess`. A server that runs already has its own."""

    def provider(self, *, env_vars: Mapping[str, str] | None = None) -> RuntimeProvider | None:
        """What starts and stops a server of the environment; None for a URL.

        Raises ImportError without its extra, ValueError for options of a server in an image.

        env_vars: environment variables of that server.
        """
        if self.url is not None:
            return None
        if self.served_as is not None:
            return LocalServer("openenv.auto", [self.served_as, *self.options], env_vars=env_vars)
        if self.info is None or self.info.server is None:
            image = self.image if self.info is None else self.info.default_image
            assert image is not None
            if self.options:
                raise ValueError(
                    f"{self.name}: a server in an image takes no options ({' '.join(self.options)}): start one that "
                    "has them, and give its URL"
                )
            variables = dict(env_vars or {})
            return BoundProvider(LocalDockerProvider, image, wait_timeout=_START_TIMEOUT_S, env_vars=variables)
        if self.info.missing:
            raise ImportError(f"environment {self.info.key!r} needs an extra to run here: {self.info.missing}")
        return LocalServer(self.info.server, self.options, env_vars=env_vars)

    @property
    def is_process(self) -> bool:
        """Whether a server of the environment is a process of this program."""
        return self.served_as is not None or (self.info is not None and self.info.server is not None)

    def _process(self) -> LocalServer:
        provider = self.provider()
        assert isinstance(provider, LocalServer), f"{self.name} is no process"
        return provider

    @contextmanager
    def running(self) -> Iterator[str]:
        """The URL of its server, which runs inside the `with` statement unless the name is a URL."""
        provider = self.provider()
        if provider is None:
            assert self.url is not None
            yield self.url
            return
        server = OwnedServer(provider, is_running=False)
        try:
            yield server.start()
        finally:
            server.stop()

    @contextmanager
    def served(self) -> Iterator[ServedEnvironment]:
        """The environment on a server that runs inside the `with` statement, unless the name is a URL.

        Connections carry the token of OPENENV_TOKEN, if that is set.
        """
        with self.running() as base_url:
            yield self.served_at(base_url, headers=token_headers())

    @contextmanager
    def served_by(self, num_servers: int) -> Iterator[ServedEnvironment]:
        """The same on several servers, which are processes of this program. A name that `is_process` has them."""
        with Fleet([self._process() for _ in range(num_servers)]) as fleet:
            first, *further = fleet.base_urls
            yield replace(self.served_at(first, headers=token_headers()), further_urls=further, fleet=fleet)

    def served_at(self, base_url: str, *, headers: Mapping[str, str] | None = None) -> ServedEnvironment:
        """The environment with its typed client and its text interface.

        A bundled or installed environment has classes of its own. Those of any other follow from the server's schemas,
        unless these are the schemas of a bundled one. Raises ServerUnreachable.
        """
        info, described = self.info, None
        if info is None or (info.text is None and self.text is None):
            described = describe_server(base_url, headers=headers)
            info = info or _bundled_with(described)
        has_own_classes = info is not None and not (described and described.tools)
        client_class = info.client_class if info and has_own_classes else _described(described).client_class()
        target = self.text or (None if info is None else info.text)
        text_class = DerivedText if target is None else load_text_class(target)
        action, observation, _ = client_class._message_classes
        text = text_class.for_environment(
            action, observation, described.description if described else "", described.tools if described else ()
        )
        if self.success_return is not None:
            text.success_return = self.success_return
        return ServedEnvironment(base_url=base_url, client_class=client_class, text=text, headers=headers or {})


def token_headers() -> dict[str, str]:
    """The header with the token of the environment variable OPENENV_TOKEN; none if it is not set."""
    token = os.environ.get("OPENENV_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token else {}


def named_environment(name: str, *, text: str | None = None) -> NamedEnvironment:
    """The environment of a name, in one of the forms of `openenv.auto.resolver.FORMS`.

    text: a class that replaces its text interface.
    Raises what `resolve` raises, and LookupError for a Space, whose server or image has a name of its own.
    """
    source = resolve(name)
    if source.kind == "url":
        return NamedEnvironment(name=name, url=name.rstrip("/"), text=text)
    if source.kind == "image":
        return NamedEnvironment(name=name, image=name.removeprefix(IMAGE), text=text)
    if source.kind == "package":
        return NamedEnvironment(name=name, info=source.info, text=text, options=source.options)
    if source.space is not None:
        if Path(name).is_dir():
            folder_target(Path(name))  # raises: it has no openenv.yaml
        raise LookupError(
            f"there is no folder {name} with an openenv.yaml. If the Space is meant, give its server's URL, "
            f"{source.space.base_url}, or its image, {IMAGE}{source.space.image()}"
        )
    if source.kind == "folder":
        text = text or _text_of_folder(source.folder)
    return NamedEnvironment(name=name, served_as=name, text=text)


def _text_of_folder(folder: Path) -> str | None:
    """The class of the manifest's `text`: MODULE:CLASS of an installed module, or FILE.py:CLASS, named from the
    folder."""
    declared: str | None = catalog.read_manifest(folder / "openenv.yaml").get("text")
    return str(folder / declared) if declared and ".py:" in declared else declared


def _described(described: ServerDescription | None) -> ServerDescription:
    assert described is not None, "an environment without classes of its own was described"
    return described


def _bundled_with(described: ServerDescription) -> EnvironmentInfo | None:
    """The bundled environment that has the same actions, if there is one: then this server is one of its servers."""
    title = str(described.schemas["action"].get("title", ""))
    for entry in catalog.entries():
        if entry.client.rpartition(":")[2].removesuffix("Env") == title.removesuffix("Action"):
            info = find_environment(entry.name)
            if message_schema(info.action_class) == described.schemas["action"]:
                return info
    return None


def load_text_class(target: str) -> type[TextInterface[Any, Any]]:
    """The text interface of a name MODULE:CLASS or FILE.py:CLASS. Raises LookupError, TypeError."""
    found = load_named(target, "text", "CLASS")
    if not (isinstance(found, type) and issubclass(found, TextInterface)):
        raise TypeError(f"text={target!r}: it is no subclass of openenv.text.interface.TextInterface")
    return found


def load_named(target: str, key: str, kind: str) -> Any:
    """What a module has under a name, as MODULE:CLASS or FILE.py:CLASS.

    Args:
        target: the name.
        key: that of the setting, for errors.
        kind: CLASS or FUNCTION, likewise.

    Raises:
        LookupError: if there is no such thing.
    """
    module_name, _, name = target.rpartition(":")
    if not module_name:
        raise LookupError(f"{key}={target!r}: write MODULE:{kind} or FILE.py:{kind}")
    found = getattr(_module(module_name), name, None)
    if found is None:
        raise LookupError(f"{key}={target!r}: {module_name} has no {name}")
    return found


def _module(name: str) -> Any:
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name).resolve()
    if not path.is_file():
        raise LookupError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"_text_of_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # pydantic and dataclasses look their module up
    spec.loader.exec_module(module)
    return module
