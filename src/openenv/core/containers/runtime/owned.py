"""The server that belongs to a client: its provider starts it when it is first needed and stops it with the client."""

import atexit
import contextlib
import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

from openenv.core.containers.runtime.docker import LocalDockerProvider
from openenv.core.containers.runtime.providers import ContainerProvider, RuntimeProvider

log = logging.getLogger(__name__)


class Prepared(RuntimeProvider):
    """A provider of either kind, together with what it is to start."""

    def __init__(
        self,
        provider: ContainerProvider | RuntimeProvider | None,
        *source: str,
        wait_timeout: float | None = None,
        **kwargs: Any,
    ) -> None:
        """provider: None for the local Docker engine. source: the image, for a provider that must be told it.

        wait_timeout: seconds until the server must answer; None leaves it to the provider. Further keywords go to the
        provider's `start_container` or `start`.
        """
        self._provider: Any = provider
        self._source = source
        self._ready_within = () if wait_timeout is None else (wait_timeout,)
        self._keywords = kwargs
        self._ready_args: tuple[Any, ...] = ()

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Start the server and return its base URL; what was prepared comes first.

        Raises ValueError for a provider that must be told more.
        """
        if self._provider is None:
            self._provider = LocalDockerProvider()
        start: Callable[..., str] = getattr(self._provider, "start_container", None) or self._provider.start
        missing = _required(start)[len(self._source) :]
        if missing:
            raise ValueError(
                f"{type(self._provider).__name__} must be told {', '.join(missing)}: use from_docker_image(image, "
                "provider=...), or start it yourself and give the client its base_url"
            )
        base_url = start(*self._source, **self._keywords)
        is_container = hasattr(self._provider, "start_container")
        self._ready_args = (base_url, *self._ready_within) if is_container else self._ready_within
        return base_url

    def stop(self) -> None:
        """Stop the server."""
        if self._provider is not None:
            stop: Callable[[], None] = getattr(self._provider, "stop_container", None) or self._provider.stop
            stop()

    def wait_for_ready(self, timeout_s: float | None = None) -> None:
        """Return when the server answers within the time that was prepared."""
        self._provider.wait_for_ready(*self._ready_args)


class OwnedServer:
    """What a provider runs for one client. Also stopped when the program ends without having closed the client."""

    def __init__(self, provider: ContainerProvider | RuntimeProvider, *, is_running: bool) -> None:
        """is_running: it was started by whoever made the client."""
        self._runtime = provider if isinstance(provider, Prepared) else Prepared(provider)
        self._is_running = is_running
        self._lock = threading.Lock()  # a client may be closed while another thread starts its server
        if is_running:
            atexit.register(self._stop_at_exit)

    def start(self) -> str:
        """Start it, wait until it answers, and return its base URL. One that does not get so far is stopped."""
        with self._lock:
            self._is_running = True
            atexit.register(self._stop_at_exit)
            try:
                base_url = self._runtime.start()
                self._runtime.wait_for_ready()
            except BaseException:
                with contextlib.suppress(RuntimeError, OSError):  # what failed first is what the caller must hear
                    self._stop()
                raise
            return base_url

    def stop(self) -> None:
        """Stop it. When that fails it counts as running, so that it can be tried again."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._is_running:
            self._runtime.stop()
            self._is_running = False
            atexit.unregister(self._stop_at_exit)

    def _stop_at_exit(self) -> None:
        log.warning("a client was not closed: stopping its server")
        self._stop()


def _required(start: Callable[..., str]) -> list[str]:
    """The parameters that a provider cannot do without."""
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(start).parameters.values()
    return [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in optional]
