"""Where environment code runs in the server's process: its event loop, a thread, or a background event loop.

`process_executor.py` has the executor that runs it in a process of its own.
"""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from concurrent.futures import Future
from typing import Any

from openenv.core.env_server.exceptions import EnvironmentFactoryError
from openenv.core.env_server.execution.env_thread import BackgroundLoop, EnvThread, SharedEnvThread
from openenv.core.env_server.execution.inline_timeout import TimedCoroutine, call_with_timeout
from openenv.core.env_server.interfaces import Execution
from openenv.core.env_server.runner.env_runner import EncodedResponse, EnvRunner
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.runner.environment_calls import MethodArguments
from openenv.core.env_server.runner.session_options import DEFAULT_OPTIONS, SessionOptions, make_runner
from openenv.core.errors import TimeLimitExceeded

log = logging.getLogger(__name__)

EXECUTION_FOR_TIMEOUT_S = 1.0
"""The most that an environment may take to choose where a call runs."""
CLOSE_TIMEOUT_S = 5.0
"""The most that the end of a session waits for the environment's `close`."""


class EnvExecutor(ABC):
    """Runs the verbs of one environment, one at a time, each with a limit in seconds.

    A verb that outlives its limit raises TimeLimitExceeded and leaves the executor broken: `restart()` before the next.
    """

    runner: EnvRunner | None = None
    """The runner of the open environment, if that is in this process."""

    @abstractmethod
    async def open(self, timeout_s: float) -> None:
        """Make the environment; its limit is also that of every later one. Raises FactoryFault."""

    @abstractmethod
    async def call(
        self, verb: str, data: dict[str, Any], keywords: Mapping[str, Any], timeout_s: float
    ) -> EncodedResponse:
        """Run one of the verbs of EnvRunner. data: of the request. keywords: further keywords of a step."""

    @abstractmethod
    async def restart(self) -> None:
        """Abandon the broken environment and make another."""

    @abstractmethod
    async def close(self) -> None:
        """Close the environment and release what it runs in. A broken one is abandoned."""


class InProcessExecutor(EnvExecutor):
    """Runs verbs in this process.

    Plain methods run in the server's event loop if the environment declares `inline`, otherwise in a thread.
    Asynchronous methods run in the background loop.
    """

    def __init__(
        self,
        spec: EnvSpec,
        arguments: MethodArguments,
        loop: BackgroundLoop,
        execution: Execution | None = None,
        shared_thread: SharedEnvThread | None = None,
        options: SessionOptions = DEFAULT_OPTIONS,
    ) -> None:
        """execution: `inline` or `thread`, which overrides the environment's. shared_thread: one thread for all
        environments of the server."""
        self._options = options
        self._spec = spec
        self._arguments = arguments
        self._execution_override = execution
        self._loop = loop
        self._shared_thread = shared_thread
        self._thread: EnvThread | None = None
        self._turn = contextlib.nullcontext() if shared_thread is None else shared_thread.turn
        self._open_timeout_s = 0.0
        self._is_blocked = False
        """Whether a call that outlived its limit still runs in the thread."""
        self._is_made_inline = False

    async def open(self, timeout_s: float) -> None:
        self._open_timeout_s = timeout_s
        name = self._spec.name
        if self._spec.is_one_instance and self._env_thread().is_busy:
            raise EnvironmentFactoryError(name, f"the server's one {name} still runs a step that outlived its limit")
        try:
            if (self._execution_override or self._spec.environment_cls.execution) == "inline":
                self.runner = call_with_timeout("the environment's constructor", timeout_s, self._make_runner)
                self._is_made_inline = True
            else:
                self.runner = await self._make_runner_in_thread(timeout_s)
        except (TimeLimitExceeded, TimeoutError):
            raise EnvironmentFactoryError(name, f"{name} could not be made in {timeout_s:g} s") from None

    def _make_runner(self) -> EnvRunner:
        return make_runner(self._spec, self._arguments, self._loop.submit, self._options, self._execution_override)

    async def _make_runner_in_thread(self, timeout_s: float) -> EnvRunner:
        made: Future[EnvRunner] | None = None
        try:
            async with self._turn:
                made = self._env_thread().submit(self._make_runner)
                async with asyncio.timeout(timeout_s):
                    return await asyncio.wrap_future(made)
        except BaseException as error:
            if made is not None and isinstance(error, TimeoutError | asyncio.CancelledError):
                made.add_done_callback(_close_when_made)
            if isinstance(error, TimeoutError):
                self._abandon(self._env_thread())
            await self.close()
            raise

    async def call(
        self, verb: str, data: dict[str, Any], keywords: Mapping[str, Any], timeout_s: float
    ) -> EncodedResponse:
        runner = self.runner
        assert runner is not None, "open() comes first"
        execution = runner.execution
        if verb in runner.choosing_verbs:
            execution = call_with_timeout("execution_for", EXECUTION_FOR_TIMEOUT_S, runner.execution_for, verb, data)
        is_async = verb in runner.async_verbs
        if execution != "inline":
            return await self._call_off_loop(runner, verb, data, keywords, timeout_s, is_async=is_async)
        if is_async:
            coroutine = runner.call_async(verb, data, keywords)
            return await _await_with_timeout(verb, TimedCoroutine(verb, timeout_s, coroutine), timeout_s)
        return call_with_timeout(verb, timeout_s, runner.call, verb, data, keywords)

    async def _call_off_loop(
        self,
        runner: EnvRunner,
        verb: str,
        data: dict[str, Any],
        keywords: Mapping[str, Any],
        timeout_s: float,
        *,
        is_async: bool,
    ) -> EncodedResponse:
        """Run a verb in the thread, or in the background loop."""
        if is_async:
            running = asyncio.wrap_future(self._loop.submit(runner.call_async(verb, data, keywords)))
            try:
                return await _await_with_timeout(verb, running, timeout_s)
            except TimeLimitExceeded:
                await self._loop.abandon_if_blocked()
                raise
        async with self._turn:
            thread = self._env_thread()
            if self._is_replaced(thread):
                raise TimeLimitExceeded(
                    "the shared environment thread is blocked by another session's step: reset to get a new one"
                )
            running = asyncio.wrap_future(thread.submit(lambda: runner.call(verb, data, keywords)))
            try:
                return await _await_with_timeout(verb, running, timeout_s)
            except TimeLimitExceeded:
                self._abandon(thread)
                raise

    async def restart(self) -> None:
        if self._spec.is_one_instance:
            if self._env_thread().is_busy:
                raise TimeLimitExceeded("the server's one ready instance still runs the step: try again when it ends")
            return
        await self.close()  # the thread closes the environment after the running call, if that ever returns
        await self.open(self._open_timeout_s)

    async def close(self) -> None:
        runner, self.runner = self.runner, None
        thread, self._thread = self._thread, None
        if runner is not None:
            if thread is None or (self._is_made_inline and not self._is_blocked):
                self._close_inline(runner)
            else:
                async with self._turn:
                    closed = asyncio.wrap_future(thread.submit(runner.close))  # after a call that still runs
                    if not (self._is_blocked or self._spec.is_one_instance or self._is_replaced(thread)):
                        await asyncio.wait({closed}, timeout=self._close_timeout_s)
        self._is_blocked = False

    def _close_inline(self, runner: EnvRunner) -> None:
        try:
            call_with_timeout("close", self._close_timeout_s, runner.close)
        except TimeLimitExceeded:
            log.warning("close() of %s took longer than %g s", self._spec.name, self._close_timeout_s)

    @property
    def _close_timeout_s(self) -> float:
        return min(CLOSE_TIMEOUT_S, self._open_timeout_s)

    def _abandon(self, thread: EnvThread) -> None:
        """Leave a thread to the call that blocks it. New environments of a shared thread get another."""
        self._is_blocked = True
        if self._shared_thread is not None:
            self._shared_thread.replace(thread)

    def _is_replaced(self, thread: EnvThread) -> bool:
        """Whether a call of another session blocks the shared thread of this one."""
        return self._shared_thread is not None and thread is not self._shared_thread.current

    def _env_thread(self) -> EnvThread:
        if self._thread is None:
            self._thread = EnvThread() if self._shared_thread is None else self._shared_thread.current
        return self._thread


def _close_when_made(made: "Future[EnvRunner]") -> None:
    """Close an environment whose session did not wait for it; called in the thread that made it."""
    if not made.cancelled() and made.exception() is None:
        made.result().close()


async def _await_with_timeout(verb: str, awaitable: Awaitable[EncodedResponse], timeout_s: float) -> EncodedResponse:
    try:
        async with asyncio.timeout(timeout_s):
            return await awaitable
    except TimeoutError:
        raise TimeLimitExceeded(f"{verb} took longer than its limit of {timeout_s:g} s: reset the session") from None
