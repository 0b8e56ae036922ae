"""The server that a client owns: its provider starts it on first use and stops it when the client closes."""

import atexit
import contextlib
import inspect
import logging
from collections.abc import Callable
from typing import Any

from openenv.core.client.providers import ContainerProvider, RuntimeProvider
from openenv.core.net.forks import ProcessBound

log = logging.getLogger(__name__)


class BoundProvider(RuntimeProvider):
    """A provider of either kind, bound to the arguments of its start."""

    def __init__(
        self,
        provider: ContainerProvider | RuntimeProvider | type[ContainerProvider],
        *source: str,
        wait_timeout: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Further keywords are passed to the provider's `start_container` or `start`.

        Args:
            provider: a class is called at the start.
            source: the image, for a container provider.
            wait_timeout: seconds until the server must be healthy; None for the provider's default.
        """
        self._provider: Any = provider
        self._source = source
        self._ready_within = () if wait_timeout is None else (wait_timeout,)
        self._keywords = kwargs
        self._ready_args: tuple[Any, ...] = ()

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Start the server with the bound arguments and return its base URL.

        Raises ValueError if the provider requires further arguments.
        """
        if isinstance(self._provider, type):
            self._provider = self._provider()
        start: Callable[..., str] = getattr(self._provider, "start_container", None) or self._provider.start
        missing = _required(start)[len(self._source) :]
        if missing:
            raise ValueError(
                f"{type(self._provider).__name__} requires {', '.join(missing)}: use from_docker_image(image, "
                "provider=...), or start it yourself and give the client its base_url"
            )
        base_url = start(*self._source, **self._keywords)
        is_container = hasattr(self._provider, "start_container")
        self._ready_args = (base_url, *self._ready_within) if is_container else self._ready_within
        return base_url

    def stop(self) -> None:
        """Stop the server."""
        if not isinstance(self._provider, type):
            stop: Callable[[], None] = getattr(self._provider, "stop_container", None) or self._provider.stop
            stop()

    def wait_for_ready(self, timeout_s: float | None = None) -> None:
        """Wait until the server is healthy, with the bound timeout."""
        self._provider.wait_for_ready(*self._ready_args)


class OwnedServer(ProcessBound):
    """A server that a provider runs for one client, started and stopped by one thread at a time.

    It is stopped at exit if the client was not closed.
    """

    def __init__(self, provider: ContainerProvider | RuntimeProvider, *, is_running: bool) -> None:
        """is_running: the provider has been started already."""
        super().__init__()
        self._runtime = provider if isinstance(provider, BoundProvider) else BoundProvider(provider)
        self._is_running = is_running
        if is_running:
            atexit.register(self._stop_at_exit)

    def start(self) -> str:
        """Start the server, wait until it is healthy, and return its base URL. It is stopped if that fails."""
        self._is_running = True
        atexit.register(self._stop_at_exit)
        with contextlib.ExitStack() as on_error:
            on_error.callback(self._stop_after_error)
            base_url = self._runtime.start()
            self._runtime.wait_for_ready()
            on_error.pop_all()
        return base_url

    def stop(self) -> None:
        """Stop the server. If that fails, it counts as running and can be stopped again."""
        if self._is_running:
            self._runtime.stop()
            self._is_running = False
            atexit.unregister(self._stop_at_exit)

    def leave_to_parent(self) -> None:
        """Called in a forked child: the parent stops the server."""
        self._is_running = False
        atexit.unregister(self._stop_at_exit)

    def _stop_after_error(self) -> None:
        with contextlib.suppress(RuntimeError, OSError):  # the first error is the one to report
            self.stop()

    def _stop_at_exit(self) -> None:
        log.warning("a client was not closed: stopping its server")
        self.stop()


def _required(start: Callable[..., str]) -> list[str]:
    """The required parameters of a provider's start."""
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(start).parameters.values()
    return [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in optional]
