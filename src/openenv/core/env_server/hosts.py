"""Where an environment's code runs: the event loop or a thread of the session's own. A third is in `worker.py`."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import Any

from openenv.core.env_server.declaration import Declaration
from openenv.core.env_server.exceptions import EnvironmentFactoryError
from openenv.core.env_server.inline_limit import InlineTimeLimit, Slices
from openenv.core.env_server.own_thread import OwnThread
from openenv.core.env_server.verbs import Answer, Verbs, VerbSignatures
from openenv.core.errors import TimeLimitExceeded

log = logging.getLogger(__name__)


class Host(ABC):
    """Runs the verbs of one environment. Verbs come one at a time; each has its limit in seconds.

    A verb that outlives its limit raises TimeLimitExceeded and leaves the host broken: `restart()` before the next.
    """

    @abstractmethod
    async def open(self, timeout_s: float) -> None:
        """Make the environment, as every later one of this host, within its limit. Raises FactoryFault."""

    @abstractmethod
    async def call(self, verb: str, data: dict[str, Any], options: dict[str, Any], timeout_s: float) -> Answer:
        """Run one of the verbs of `Verbs`. data: what the client sent; options: further keywords of a step."""

    def answers_at_once(self, verb: str) -> bool:
        """Whether `call_at_once` may be used: the verb runs in the event loop and waits for nothing."""
        return False

    def call_at_once(self, verb: str, data: dict[str, Any], options: dict[str, Any], timeout_s: float) -> Answer:
        """`call` without a turn of the event loop."""
        raise NotImplementedError

    @abstractmethod
    async def restart(self) -> None:
        """Leave the broken environment behind and make another."""

    @abstractmethod
    async def close(self) -> None:
        """Close the environment and free what it runs in. A broken one is left behind."""


class LocalHost(Host):
    """Runs the verbs in this process: in the event loop when the environment says `inline`, else in one thread."""

    def __init__(
        self,
        declaration: Declaration,
        signatures: VerbSignatures,
        execution: str | None = None,
        shared_thread: OwnThread | None = None,
    ) -> None:
        """execution: `inline` or `thread` in place of what the environment says. shared_thread: one thread for all
        environments of the server, for libraries that must not be used from two."""
        self._declaration = declaration
        self._execution = execution
        self._signatures = signatures
        self._shared_thread = shared_thread
        self._thread: OwnThread | None = None
        self._verbs: Verbs | None = None
        self._open_timeout_s = 0.0

    async def open(self, timeout_s: float) -> None:
        self._open_timeout_s = timeout_s
        try:
            if (self._execution or self._declaration.environment_cls.execution) == "inline":
                with InlineTimeLimit("the environment's constructor", timeout_s):
                    self._verbs = self._make()
            else:
                self._verbs = await self._make_in_thread(timeout_s)
        except (TimeLimitExceeded, TimeoutError):
            reason = f"{self._declaration.name} could not be made in {timeout_s:g} s"
            raise EnvironmentFactoryError(self._declaration.name, reason) from None

    def _make(self) -> Verbs:
        return Verbs(self._declaration, self._signatures)

    async def _make_in_thread(self, timeout_s: float) -> Verbs:
        made = self._own_thread().submit(self._make)
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.wrap_future(made)
        except BaseException as error:
            if isinstance(error, TimeoutError | asyncio.CancelledError):
                made.add_done_callback(_close_when_made)
            await self.close()
            raise

    async def call(self, verb: str, data: dict[str, Any], options: dict[str, Any], timeout_s: float) -> Answer:
        verbs = self._verbs
        assert verbs is not None, "open() comes first"
        if (self._execution or verbs.env.execution) != "inline":
            return await self._call_in_thread(verbs, verb, data, options, timeout_s)
        if verbs.is_async(verb):
            return await _limited(verb, Slices(verb, verbs.call_async(verb, data, options), timeout_s), timeout_s)
        return self.call_at_once(verb, data, options, timeout_s)

    def answers_at_once(self, verb: str) -> bool:
        verbs = self._verbs
        return verbs is not None and (self._execution or verbs.env.execution) == "inline" and not verbs.is_async(verb)

    def call_at_once(self, verb: str, data: dict[str, Any], options: dict[str, Any], timeout_s: float) -> Answer:
        verbs = self._verbs
        assert verbs is not None, "open() comes first"
        with InlineTimeLimit(verb, timeout_s):
            return verbs.call(verb, data, options)

    async def _call_in_thread(
        self, verbs: Verbs, verb: str, data: dict[str, Any], options: dict[str, Any], timeout_s: float
    ) -> Answer:
        running = self._own_thread().submit(lambda: verbs.call(verb, data, options))
        try:
            return await _limited(verb, asyncio.wrap_future(running), timeout_s)
        except (TimeLimitExceeded, asyncio.CancelledError):
            verbs.interrupt()
            raise

    async def restart(self) -> None:
        if self._declaration.is_one_instance:
            raise TimeLimitExceeded("the server's one ready instance still runs: serve the class to get fresh ones")
        await self.close()  # the thread closes what it runs when that returns, if it ever does
        await self.open(self._open_timeout_s)

    async def close(self) -> None:
        verbs, self._verbs = self._verbs, None
        if self._thread is None:
            if verbs is not None:
                verbs.close()
            return
        thread, self._thread = self._thread, None
        if verbs is not None:
            thread.submit(verbs.close)  # after a step that still runs, if it ever ends
        if thread is not self._shared_thread:
            thread.stop()

    def _own_thread(self) -> OwnThread:
        if self._thread is None:
            self._thread = self._shared_thread or OwnThread()
        return self._thread


def _close_when_made(made: "Future[Verbs]") -> None:
    """An environment whose session has given up waiting for it; called in the thread that made it."""
    if not made.cancelled() and made.exception() is None:
        made.result().close()


async def _limited(verb: str, awaitable: Awaitable[Answer], timeout_s: float) -> Answer:
    try:
        async with asyncio.timeout(timeout_s):
            return await awaitable
    except TimeoutError:
        raise TimeLimitExceeded(f"{verb} took longer than its limit of {timeout_s:g} s: reset the session") from None
