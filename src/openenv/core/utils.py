"""Checks of arguments, addresses of servers, and coroutines run from any code."""

import asyncio
import ipaddress
import re
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

ResultT = TypeVar("ResultT")


def check_type(name: str, value: Any, kind: type | tuple[type, ...], remedy: str, *, optional: bool = False) -> None:
    """Raise TypeError, with the argument's name and what to give, for a value of another type.

    The value is not repeated: it may hold a token. True and False are no numbers here.

    Args:
        name: Name of the argument.
        value: Its value.
        kind: The type, or several.
        remedy: What to give, such as `a text such as localhost:8000`.
        optional: Whether None is allowed.
    """
    if value is None and optional:
        return
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError(f"{name} is of type {type(value).__name__}: give {remedy}{', or None' if optional else ''}")


def check_headers(headers: Any) -> None:
    """Raise TypeError for headers that are no mapping of names to texts."""
    check_type("headers", headers, Mapping, "a mapping such as {'Authorization': 'Bearer ...'}", optional=True)


def check_options(options: Any) -> None:
    """Raise TypeError for what are no keywords of a reset."""
    check_type("options", options, Mapping, "a mapping of keywords of the reset", optional=True)


class LoopThread:
    """One event loop, always run in the same thread, so that what belongs to the loop can be used again.

    Its coroutines run also where an event loop runs already, as in a notebook's cell. That loop then waits for them.
    """

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        """The first coroutine starts the thread."""
        self._runner = asyncio.Runner(loop_factory=loop_factory)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="coroutines of synchronous code")
        self._cancel: Callable[[], object] | None = None

    def run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """The coroutine's result. Ctrl-C cancels the coroutine, waits for its end, and raises KeyboardInterrupt."""
        whole = self._cancellable(coroutine)
        try:
            running = self._thread.submit(self._runner.run, whole)
        except RuntimeError:  # the program ends, and its threads have ended before functions of atexit are called
            return self._runner.run(whole)
        try:
            return running.result()
        except BaseException:
            if not running.done() and self._cancel is not None:
                self._cancel()
                wait([running])
            raise

    async def _cancellable(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        return await coroutine

    def close(self) -> None:
        """Cancel what still runs, close the loop, and end the thread."""
        try:
            self._thread.submit(self._runner.close).result()
        except RuntimeError:  # as in `run`
            self._runner.close()
        self._thread.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run_async_safely(
    coro: Coroutine[Any, Any, ResultT], *, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> ResultT:
    """The result of a coroutine, also where an event loop runs already, which then waits for it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(coro)
    with LoopThread(loop_factory) as thread:
        return thread.run(coro)


def convert_to_ws_url(url: str) -> str:
    """A server's URL with `ws` in place of `http`, `wss` in place of `https`, and no slash at its end."""
    scheme, separator, rest = url.rstrip("/").partition("://")
    if not separator:
        return f"ws://{scheme}"
    return f"{ {'http': 'ws', 'https': 'wss'}.get(scheme.lower(), scheme) }://{rest}"


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_on_this_machine(url: str) -> bool:
    """Whether the server at a URL is on this machine, so that no proxy belongs between it and its clients."""
    host = urlsplit(url if "://" in url else f"http://{url}").hostname or ""
    return is_loopback(host) or host in ("0.0.0.0", "::")  # a connection to 0.0.0.0 stays here


def hf_space_subdomain(repo_id: str) -> str:
    """The name of a Space in the Hub's host names and image names: `owner-my-env` for `Owner/my_env`."""
    return re.sub(r"[^a-z0-9]", "-", repo_id.lower())
