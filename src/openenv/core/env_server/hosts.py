"""Where an environment's code runs: the event loop or a thread of the session's own. A third is in `worker.py`."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from openenv.core.env_server.declaration import Declaration
from openenv.core.env_server.inline_limit import InlineTimeLimit
from openenv.core.env_server.own_thread import OwnThread
from openenv.core.env_server.verbs import Answer, Verbs, VerbSignatures
from openenv.core.errors import TimeLimitExceeded

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")


class Host(ABC):
    """Runs the verbs of one environment. Verbs come one at a time; each has its limit in seconds.

    A verb that outlives its limit raises TimeLimitExceeded and leaves the host broken: `restart()` before the next.
    """

    @abstractmethod
    async def open(self) -> None:
        """Make the environment. Raises FactoryFault when that fails."""

    @abstractmethod
    async def reset(self, data: dict[str, Any], timeout_s: float) -> Answer:
        """Start an episode."""

    @abstractmethod
    async def step(self, data: dict[str, Any], options: dict[str, Any], timeout_s: float) -> Answer:
        """Take an action."""

    @abstractmethod
    async def state(self, timeout_s: float) -> Answer:
        """The environment's state."""

    @abstractmethod
    async def save(self, timeout_s: float) -> bytes:
        """The environment's own snapshot. Raises NotSupported when it has none."""

    @abstractmethod
    async def load(self, snapshot: bytes, timeout_s: float) -> None:
        """Continue from a snapshot."""

    @abstractmethod
    async def restart(self) -> None:
        """Leave the broken environment behind and make another."""

    @abstractmethod
    async def close(self) -> None:
        """Close the environment and free what it runs in. A broken one is left behind."""


class LocalHost(Host):
    """Runs the verbs in this process: in the event loop when the environment says `inline`, else in one thread."""

    def __init__(self, declaration: Declaration, signatures: VerbSignatures, execution: str | None = None) -> None:
        """execution: `inline` or `thread` in place of what the environment says."""
        self._declaration = declaration
        self._execution = execution
        self._signatures = signatures
        self._thread: OwnThread | None = None
        self._verbs: Verbs | None = None

    async def open(self) -> None:
        def make() -> Verbs:
            return Verbs(self._declaration, self._signatures)

        is_inline = (self._execution or self._declaration.environment_cls.execution) == "inline"
        self._verbs = make() if is_inline else await asyncio.wrap_future(self._own_thread().submit(make))

    async def reset(self, data: dict[str, Any], timeout_s: float) -> Answer:
        if self._signatures.reset_is_async:
            return await self._limited("reset", self._ready.reset_async(data), timeout_s)
        return await self._run("reset", lambda: self._ready.reset(data), timeout_s)

    async def step(self, data: dict[str, Any], options: dict[str, Any], timeout_s: float) -> Answer:
        if self._signatures.step_is_async:
            return await self._limited("step", self._ready.step_async(data, options), timeout_s)
        return await self._run("step", lambda: self._ready.step(data, options), timeout_s)

    async def state(self, timeout_s: float) -> Answer:
        return await self._run("state", lambda: self._ready.state(), timeout_s)

    async def save(self, timeout_s: float) -> bytes:
        return await self._run("save_state", lambda: self._ready.save(), timeout_s)

    async def load(self, snapshot: bytes, timeout_s: float) -> None:
        await self._run("load_state", lambda: self._ready.load(snapshot), timeout_s)

    async def restart(self) -> None:
        if self._declaration.is_one_instance:
            raise TimeLimitExceeded("the server's one ready instance still runs: serve the class to get fresh ones")
        await self.close()  # the thread closes what it runs when that returns, if it ever does
        await self.open()

    async def close(self) -> None:
        verbs, self._verbs = self._verbs, None
        if self._thread is None:
            if verbs is not None:
                verbs.close()
            return
        thread, self._thread = self._thread, None
        if verbs is not None:
            thread.submit(verbs.close)  # after a step that still runs, if it ever ends
        thread.stop()

    @property
    def _ready(self) -> Verbs:
        assert self._verbs is not None, "open() comes first"
        return self._verbs

    def _own_thread(self) -> OwnThread:
        if self._thread is None:
            self._thread = OwnThread()
        return self._thread

    async def _run(self, verb: str, call: Callable[[], ResultT], timeout_s: float) -> ResultT:
        if (self._execution or self._ready.env.execution) == "inline":
            with InlineTimeLimit(verb, timeout_s):
                return call()
        return await self._limited(verb, asyncio.wrap_future(self._own_thread().submit(call)), timeout_s)

    async def _limited(self, verb: str, awaitable: Awaitable[ResultT], timeout_s: float) -> ResultT:
        try:
            async with asyncio.timeout(timeout_s):
                return await awaitable
        except TimeoutError:
            raise TimeLimitExceeded(
                f"{verb} took longer than its limit of {timeout_s:g} s: reset the session"
            ) from None
