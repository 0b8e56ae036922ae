"""A provider for Docker: one isolated container on the local engine. Podman's shares all but its engine."""

import contextlib
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from openenv.core.client.providers import ContainerProvider, ExecResult
from openenv.core.errors import ContainerFault, NotReady
from openenv.core.wire.constants import UNIX
from openenv.hosting.engine import owner_watch
from openenv.hosting.engine.connection import Engine
from openenv.hosting.engine.keywords import Keywords, merge_options, read_keywords
from openenv.hosting.engine.owner import (
    make_socket_folder,
    owner_labels,
    remove_ownerless,
    remove_socket_folder,
)
from openenv.hosting.runtime.subprocess_tool import PORT_IN_CONTAINER, unique_name
from openenv.hosting.server_process import ChildProcess, wait_until_ready

REMEDY = "Is Docker installed, is its engine running (`docker info`), and may this user access it?"
_GRACE_S = 10
_SOCKET_FOLDER = "/run/openenv"
_SOCKET = "server.sock"
_PORT = f"{PORT_IN_CONTAINER}/tcp"
_NO_HEALTH_CHECK = {"test": ["NONE"]}
"""The client asks the server itself, and a check of the image's would ask a port."""


class EngineProvider(ContainerProvider):
    """Runs one container of an engine with Docker's API."""

    def __init__(self, connection: Engine) -> None:
        """Removes containers that processes of this machine have left on the engine when they ended."""
        self._engine = connection
        self._name: str | None = None
        self._layers: dict[str, str] = {}
        self._socket_folder: str | None = None
        self._watch: ChildProcess | None = None
        remove_ownerless(connection)

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Run `image`, which serves on its port 8000, and return its base URL.

        port: on the loopback interface; None lets the engine choose a free one. Keywords of ours are `pull` (never, or
        missing: get an image that is absent from its registry), `command`, and the fields of `Isolation`, such as
        limits=ContainerLimits(memory_bytes=1 << 30) or read_only=False. Others are those of the Docker SDK, such as
        volumes={"/data": {"bind": "/data", "mode": "ro"}}. With network="none" the server gets `--host unix:/path` as
        its last argument, and its base URL is that of the socket.

        Raises ContainerFault if the engine fails, or would not enforce what is asked for, NotReady if the container
        ends at once, and ValueError for an unknown keyword.
        """
        if self._name is not None:
            raise ContainerFault(f"this provider already runs {self._name}: stop_container() first")
        keywords = read_keywords(image, kwargs)
        if keywords.isolation.network == "none" and port is not None:
            raise ValueError(f"port={port}: with network='none' the server has a Unix socket and no port")
        with contextlib.ExitStack() as on_error:
            self._name = unique_name(image)
            on_error.callback(self._remove_after_error)
            self._create(image, keywords, port, env_vars or {})
            base_url = self._started_url()
            on_error.pop_all()
        return base_url

    def stop_container(self) -> None:
        """Stop and remove the container after up to ten seconds. Raises ContainerFault if it cannot be removed."""
        if self._name is None:
            return
        from docker.errors import NotFound

        with self._engine.errors(f"removing {self._name}"), contextlib.suppress(NotFound):
            container = self._engine.client.containers.get(self._name)
            container.stop(timeout=_GRACE_S)
            container.remove(force=True, v=True)
        self._name = None
        if self._socket_folder is not None:
            remove_socket_folder(self._socket_folder)
            self._socket_folder = None
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
        self._engine.close()  # the next request connects again

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Wait until the server is healthy. Raises NotReady, with the container's log, if it ends or times out."""
        try:
            wait_until_ready(base_url, timeout_s, self._ended)
        except NotReady as error:
            raise NotReady(f"{error}\n{self.logs()}".rstrip()) from None

    def logs(self, tail: int = 50) -> str:
        """The last lines of the output of the container's programs. Raises ContainerFault."""
        with self._engine.errors("reading the log"):
            output: bytes = self._container().logs(tail=tail)
        return output.decode(errors="replace")

    def exec(self, command: Sequence[str]) -> ExecResult:
        """Run a command in the container. Raises ContainerFault if the engine cannot."""
        with self._engine.errors(f"running {command[0]}"):
            code, output = self._container().exec_run(list(command))
        return ExecResult(code, output.decode(errors="replace"))

    @property
    def layers(self) -> dict[str, str]:
        """Each layer around the container: `on`, or `off` with the reason. Empty before the start."""
        return dict(self._layers)

    def close(self) -> None:
        """Close the connections to the engine."""
        self._engine.close()

    def _create(self, image: str, keywords: Keywords, port: int | None, env_vars: dict[str, str]) -> None:
        """Create the container and start it."""
        found = self._engine.image(image, keywords.pull)
        config = found.attrs["Config"] or {}
        user = config.get("User") or ""
        self._layers = keywords.isolation.layers(self._engine, user)
        options = merge_options(keywords.isolation.options(self._engine, user), self._engine_options())
        command = keywords.command
        if keywords.isolation.network == "none":
            self._socket_folder = make_socket_folder()
            options["mounts"] = [_bind(self._socket_folder)]
            command = _on_socket(image, config, command)
        else:
            options["ports"] = {_PORT: ("127.0.0.1", port)}
        options["labels"] = owner_labels(self._socket_folder)
        options["healthcheck"] = _NO_HEALTH_CHECK
        options["environment"] = {"HOME": "/tmp", **env_vars}
        self._watch = self._start_watch()
        with self._engine.errors(f"starting {image}"):
            container = self._engine.client.containers.create(
                found.id, command, name=self._name, **merge_options(options, keywords.others)
            )
            container.start()

    def _engine_options(self) -> dict[str, Any]:
        """Options that this engine needs for every container."""
        return {}

    def _start_watch(self) -> ChildProcess:
        """A process that removes the container when this one ends without doing so."""
        program = owner_watch.__file__
        folder = "" if self._socket_folder is None else os.path.dirname(self._socket_folder)
        return ChildProcess([sys.executable, "-P", program, self._engine.url or "", self._name or "", folder])

    def _started_url(self) -> str:
        """The base URL of the server. Raises NotReady if the container has ended, ContainerFault without a port."""
        if self._socket_folder is not None:
            return f"{UNIX}{self._socket_folder}/{_SOCKET}"
        with self._engine.errors("looking for the port"):
            container = self._container()
        published = container.ports.get(_PORT)
        if published:
            return f"http://127.0.0.1:{published[0]['HostPort']}"
        ended = self._ended()
        if ended is not None:
            raise NotReady(f"{ended}\n{self.logs()}".rstrip())
        raise ContainerFault(
            f"{self._engine.kind} publishes no port on this network. Give network='none', which needs none, or use an "
            "engine with iptables and a bridge, and a network that is not internal"
        )

    def _container(self) -> Any:
        if self._name is None:
            raise ContainerFault("no container runs: start_container() first")
        return self._engine.client.containers.get(self._name)

    def _ended(self) -> str | None:
        with self._engine.errors("looking at the container"):
            state = self._container().attrs["State"]
        if state["Status"] not in ("exited", "dead"):
            return None
        why = "out of memory" if state["OOMKilled"] else f"exit code {state['ExitCode']}"
        return f"the container {self._name} has {state['Status']}: {why}"

    def _remove_after_error(self) -> None:
        with contextlib.suppress(ContainerFault):  # the error of the start is the one to report
            self.stop_container()
        self._name = None


class LocalDockerProvider(EngineProvider):
    """Runs one container of the Docker engine of this machine, at DOCKER_HOST or its usual socket.

    The container is isolated (`layers` says how), reachable from this machine only, and removed when this process ends,
    however it ends.

    Example:
        with EchoEnv.from_docker_image("echo-env:latest") as env:  # makes one of these
            env.reset()
    """

    def __init__(self) -> None:
        """Raises ContainerFault if the extra `docker` is missing, or no engine of this machine answers."""
        super().__init__(Engine("Docker", None, REMEDY))


def _bind(folder: str) -> Any:
    from docker.types import Mount

    return Mount(target=_SOCKET_FOLDER, source=folder, type="bind")


def _on_socket(image: str, config: dict[str, Any], given: str | Sequence[str] | None) -> list[str]:
    """The command with the address of the Unix socket as its last argument. Raises ValueError for a shell's."""
    command = given or config.get("Cmd") or []
    command = shlex.split(command) if isinstance(command, str) else list(command)
    if not config.get("Entrypoint") and (not command or command[:2] == ["/bin/sh", "-c"]):
        raise ValueError(
            f"{image} has no command that takes `--host unix:/path` as its last argument, which network='none' needs: "
            "give command=[...]"
        )
    return [*command, "--host", f"{UNIX}{_SOCKET_FOLDER}/{_SOCKET}"]
