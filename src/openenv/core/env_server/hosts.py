"""Where an environment's code runs: the event loop or a thread of the session's own. A third is in `worker.py`."""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import Any

from openenv.core.env_server.declaration import Declaration
from openenv.core.env_server.exceptions import EnvironmentFactoryError
from openenv.core.env_server.inline_limit import InlineTimeLimit, Slices, limited_call
from openenv.core.env_server.loop_thread import LoopThread
from openenv.core.env_server.manner import PLAIN, Manner, verbs_for
from openenv.core.env_server.own_thread import OwnThread, SharedThread
from openenv.core.env_server.verbs import Answer, Verbs, VerbSignatures
from openenv.core.errors import TimeLimitExceeded

log = logging.getLogger(__name__)


class Host(ABC):
    """Runs the verbs of one environment. Verbs come one at a time; each has its limit in seconds.

    A verb that outlives its limit raises TimeLimitExceeded and leaves the host broken: `restart()` before the next.
    """

    verbs: Verbs | None = None
    """Those of the environment, once it is open in this process."""

    @abstractmethod
    async def open(self, timeout_s: float) -> None:
        """Make the environment, as every later one of this host, within its limit. Raises FactoryFault."""

    @abstractmethod
    async def call(self, verb: str, data: dict[str, Any], options: dict[str, Any], timeout_s: float) -> Answer:
        """Run one of the verbs of `Verbs`. data: what the client sent; options: further keywords of a step."""

    @abstractmethod
    async def restart(self) -> None:
        """Leave the broken environment behind and make another."""

    @abstractmethod
    async def close(self) -> None:
        """Close the environment and free what it runs in. A broken one is left behind."""


class LocalHost(Host):
    """Runs the verbs in this process: in the server's event loop when the environment says `inline`, else in a thread;
    what the author wrote asynchronously in an event loop beside the server's."""

    def __init__(
        self,
        declaration: Declaration,
        signatures: VerbSignatures,
        loop: LoopThread,
        execution: str | None = None,
        shared_thread: SharedThread | None = None,
        manner: Manner = PLAIN,
    ) -> None:
        """loop: for asynchronous verbs. execution: `inline` or `thread` in place of what the environment says.
        shared_thread: one thread for all environments of the server."""
        self._manner = manner
        self._declaration = declaration
        self._execution = execution
        self._signatures = signatures
        self._loop = loop
        self._shared_thread = shared_thread
        self._thread: OwnThread | None = None
        self._open_timeout_s = 0.0
        self._is_held_up = False
        self._is_made_inline = False

    async def open(self, timeout_s: float) -> None:
        self._open_timeout_s = timeout_s
        name = self._declaration.name
        if self._declaration.is_one_instance and self._own_thread().is_busy:
            raise EnvironmentFactoryError(name, f"the server's one {name} still runs a step that outlived its limit")
        try:
            if (self._execution or self._declaration.environment_cls.execution) == "inline":
                with InlineTimeLimit("the environment's constructor", timeout_s):
                    self.verbs = self._make()
                self._is_made_inline = True
            else:
                self.verbs = await self._make_in_thread(timeout_s)
        except (TimeLimitExceeded, TimeoutError):
            raise EnvironmentFactoryError(name, f"{name} could not be made in {timeout_s:g} s") from None

    def _make(self) -> Verbs:
        verbs = verbs_for(self._declaration, self._signatures, self._loop, self._manner)
        verbs.told = self._execution
        return verbs

    async def _make_in_thread(self, timeout_s: float) -> Verbs:
        thread = self._own_thread()
        made = thread.submit(self._make)
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.wrap_future(made)
        except BaseException as error:
            if isinstance(error, TimeoutError | asyncio.CancelledError):
                made.add_done_callback(_close_when_made)
                self._leave(thread)
            await self.close()
            raise

    async def call(self, verb: str, data: dict[str, Any], options: dict[str, Any], timeout_s: float) -> Answer:
        verbs = self.verbs
        assert verbs is not None, "open() comes first"
        if verbs.execution(verb, data) != "inline":
            return await self._call_beside(verbs, verb, data, options, timeout_s)
        if verbs.is_async(verb):
            return await _limited(verb, Slices(verb, verbs.call_async(verb, data, options), timeout_s), timeout_s)
        return limited_call(verbs.call, verb, data, options, timeout_s)

    async def _call_beside(
        self, verbs: Verbs, verb: str, data: dict[str, Any], options: dict[str, Any], timeout_s: float
    ) -> Answer:
        thread = self._own_thread()
        if self._shared_thread is not None and thread is not self._shared_thread.current:
            raise TimeLimitExceeded("a step of another session holds up the thread that all share: reset the session")
        is_async = verbs.is_async(verb)
        if is_async:
            running = self._loop.submit(verbs.call_async(verb, data, options))
        else:
            running = thread.submit(lambda: verbs.call(verb, data, options))
        try:
            return await _limited(verb, asyncio.wrap_future(running), timeout_s)
        except TimeLimitExceeded:
            if is_async:
                await self._loop.leave_when_stuck()
            else:
                self._leave(thread)
            raise

    async def restart(self) -> None:
        if self._declaration.is_one_instance:
            if self._own_thread().is_busy:
                raise TimeLimitExceeded("the server's one ready instance still runs the step: try again when it ends")
            return
        await self.close()  # the thread closes what it runs when that returns, if it ever does
        await self.open(self._open_timeout_s)

    async def close(self) -> None:
        verbs, self.verbs = self.verbs, None
        thread, self._thread = self._thread, None
        is_closed_here = thread is None or (self._is_made_inline and not self._is_held_up)
        if verbs is not None and is_closed_here:
            with contextlib.suppress(TimeLimitExceeded), InlineTimeLimit("close", self._open_timeout_s):
                verbs.close()
        if verbs is not None and thread is not None and not is_closed_here:
            closed = asyncio.wrap_future(thread.submit(verbs.close))  # after a step that still runs, if it ever ends
            if not (self._is_held_up or self._declaration.is_one_instance):
                await asyncio.wait({closed}, timeout=self._open_timeout_s)
        self._is_held_up = False
        if thread is not None and self._shared_thread is None:
            thread.stop()

    def _leave(self, thread: OwnThread) -> None:
        """A call holds the thread up: where all environments share it, the others get another."""
        self._is_held_up = True
        if self._shared_thread is not None:
            self._shared_thread.lose(thread)

    def _own_thread(self) -> OwnThread:
        if self._thread is None:
            self._thread = OwnThread() if self._shared_thread is None else self._shared_thread.current
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
