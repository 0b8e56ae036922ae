"""Where environment code runs in the server's process: its event loop, a thread, or a background event loop.

`process_executor.py` has the executor that runs it in a process of its own.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar

from openenv.core.env_server.exceptions import EnvironmentFactoryError
from openenv.core.env_server.execution.background_loop import BackgroundLoop
from openenv.core.env_server.execution.env_thread import CLOSE, EnvThread, blocked_by_another
from openenv.core.env_server.execution.env_threads import EnvThreads
from openenv.core.env_server.execution.inline_timeout import TimedCoroutine, call_with_timeout
from openenv.core.env_server.interfaces import Execution
from openenv.core.env_server.runner.env_runner import EncodedResponse, EnvRunner
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.runner.environment_calls import MethodArguments
from openenv.core.env_server.runner.session_options import DEFAULT_OPTIONS, SessionOptions, make_runner
from openenv.core.errors import TimeLimitExceeded

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

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
    allow_step_after_done = False
    """Whether the open environment may be stepped after the end of its episode."""

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
        threads: EnvThreads,
        execution: Execution | None = None,
        options: SessionOptions = DEFAULT_OPTIONS,
    ) -> None:
        """
        Args:
            loop, threads: of the server.
            execution: `inline` or `thread`, which overrides the environment's.
        """
        self._options = options
        self._spec = spec
        self._arguments = arguments
        self._execution_override = execution
        self._loop = loop
        self._threads = threads
        self._thread: EnvThread | None = None
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
        except TimeLimitExceeded:
            raise EnvironmentFactoryError(name, f"{name} could not be made in {timeout_s:g} s") from None
        self.allow_step_after_done = self.runner.env.ALLOWS_STEP_AFTER_DONE

    def _make_runner(self) -> EnvRunner:
        return make_runner(self._spec, self._arguments, self._loop.submit, self._options, self._execution_override)

    async def _make_runner_in_thread(self, timeout_s: float) -> EnvRunner:
        made: list[EnvRunner] = []

        def close_made() -> None:
            for runner in made:
                runner.close()

        try:
            await self._call_in_thread("the constructor", timeout_s, lambda: made.append(self._make_runner()))
        except BaseException:  # also a cancellation: the session does not wait for what is being made
            self._env_thread().submit(CLOSE, CLOSE_TIMEOUT_S, close_made)
            await self.close()
            raise
        return made[0]

    async def _call_in_thread(self, name: str, timeout_s: float, run: Callable[[], ResultT]) -> ResultT:
        thread = self._env_thread()
        if thread.is_abandoned:
            raise blocked_by_another()
        try:
            return await thread.submit(name, timeout_s, run, self._keep_thread)
        except TimeLimitExceeded:
            self._is_blocked = True
            raise

    def _keep_thread(self, thread: EnvThread) -> None:
        """A call of this environment blocks a thread, and the others have left it."""
        self._thread = thread

    async def call(
        self, verb: str, data: dict[str, Any], keywords: Mapping[str, Any], timeout_s: float
    ) -> EncodedResponse:
        runner = self.runner
        assert runner is not None, "open() comes first"
        execution = runner.execution
        if verb in runner.choosing_verbs:
            execution = call_with_timeout("execution_for", EXECUTION_FOR_TIMEOUT_S, runner.execution_for, verb, data)
        if verb in runner.async_verbs:
            coroutine = runner.call_async(verb, data, keywords)
            return await self._await_in_loop(verb, timeout_s, coroutine, is_inline=execution == "inline")
        if execution == "inline":
            return call_with_timeout(verb, timeout_s, runner.call, verb, data, keywords)
        return await self._call_in_thread(verb, timeout_s, partial(runner.call, verb, data, keywords))

    async def _await_in_loop(
        self, verb: str, timeout_s: float, coroutine: Coroutine[Any, Any, EncodedResponse], *, is_inline: bool
    ) -> EncodedResponse:
        """Await an asynchronous verb in the server's loop, or in the background loop."""
        if is_inline:
            return await _await_with_timeout(verb, TimedCoroutine(verb, timeout_s, coroutine), timeout_s)
        try:
            return await _await_with_timeout(verb, asyncio.wrap_future(self._loop.submit(coroutine)), timeout_s)
        except TimeLimitExceeded:
            await self._loop.abandon_if_blocked()
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise TimeLimitExceeded(
                "another session's step has blocked the loop that asynchronous environments share: reset the session"
            ) from None

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
        is_blocked, self._is_blocked = self._is_blocked, False
        if runner is None or self._spec.is_one_instance:  # which the server keeps
            return
        try:
            if thread is None or (self._is_made_inline and not is_blocked):
                call_with_timeout(CLOSE, CLOSE_TIMEOUT_S, runner.close)
            elif is_blocked or thread.is_abandoned:
                thread.submit(CLOSE, CLOSE_TIMEOUT_S, runner.close)  # after a call that still runs
            else:
                await thread.submit(CLOSE, CLOSE_TIMEOUT_S, runner.close)
        except TimeLimitExceeded as error:
            log.warning("%s: %s", self._spec.name, error)

    def _env_thread(self) -> EnvThread:
        if self._thread is None:
            self._thread = self._threads.assign()
        return self._thread


async def _await_with_timeout(verb: str, awaitable: Awaitable[EncodedResponse], timeout_s: float) -> EncodedResponse:
    try:
        async with asyncio.timeout(timeout_s):
            return await awaitable
    except TimeoutError:
        raise TimeLimitExceeded(f"{verb} took longer than its limit of {timeout_s:g} s: reset the session") from None
