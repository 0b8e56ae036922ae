"""One session: an environment, its episode, and the responses it keeps for repeated requests."""

import asyncio
import contextlib
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.execution.executors import EnvExecutor
from openenv.core.env_server.execution.inline_timeout import call_with_timeout
from openenv.core.env_server.observability.log_context import EpisodeContext, current_episode
from openenv.core.env_server.observability.metrics import ServerMetrics
from openenv.core.env_server.runner.env_runner import EncodedResponse, EnvRunner
from openenv.core.env_server.sessions.recording import SessionRecorder
from openenv.core.env_server.sessions.response_cache import Body, Pending, ResponseCache, Result
from openenv.core.errors import (
    EnvironmentFault,
    EpisodeOver,
    RequestRefused,
    SessionFault,
    TimeLimitExceeded,
    WorkerCrashed,
)
from openenv.core.wire.constants import EPISODE_VERBS
from openenv.core.wire.server_codec import SessionRequest

if TYPE_CHECKING:
    from openenv.core.env_server.observability.spans import VerbSpans

log = logging.getLogger(__name__)

_NO_SPAN = contextlib.nullcontext()
_NO_WAIT: contextlib.nullcontext[None] = contextlib.nullcontext()
_RECOVERING_VERBS = frozenset({"reset", "load"})
_SEEN_VERBS = frozenset({"reset", "step", "mcp"})
_NEEDS_RESET = frozenset({"step", "state"})
"""By the specification. An environment may allow them before, so the server asks it; what it raises gets a remark."""


class Attachment(Protocol):
    """A connection that plays a session."""

    def shut_down(self, code: int, reason: str) -> None:
        """Close the connection with a WebSocket close code and its reason, and ignore the frames that still come."""


class Watcher(Protocol):
    """Sees each episode verb of a session and its outcome, and changes nothing. Its methods return at once."""

    def on_response(self, verb: str, data: dict[str, Any], response: EncodedResponse) -> None:
        """A reset, a step or a call of a tool has ended with a response."""

    def on_error(self, verb: str, data: dict[str, Any], error: RequestRefused) -> None:
        """It has ended with an error."""

    def on_end(self) -> None:
        """The session has ended."""


class Session:
    """One environment and its episode. Verbs run one at a time, in the order of their requests."""

    def __init__(
        self,
        session_id: str,
        executor: EnvExecutor,
        config: ServerConfig,
        metrics: ServerMetrics,
        *,
        recorder: SessionRecorder | None = None,
        spans: "VerbSpans | None" = None,
    ) -> None:
        self.id = session_id
        self.created = self.last_activity = time.monotonic()
        self.num_steps = 0
        """Steps taken in all episodes."""
        self.attachment: Attachment | None = None
        """The connection that plays the session; None over HTTP and while the client is disconnected."""
        self.has_ended = False
        self.is_closing = False
        """Whether the session ends as soon as its connection does."""
        self.outlives_connection = False
        """Whether it was opened over HTTP, where no connection ends it."""
        self.was_attached = False
        """Whether a connection has ever played it."""
        self.branches: list[Session] = []
        """Sessions that were forked from this one."""
        self.watchers: set[Watcher] = set()
        self._executor = executor
        self._config = config
        self._metrics = metrics
        self._episode_is_over = False
        self._num_resets = 0
        self._is_loaded = False
        self._episode = EpisodeContext(session_id, "0")
        self._fault: RequestRefused | None = None
        """The time limit or crash that the episode ended with. A reset makes another environment."""
        self._turn = asyncio.Lock()
        self._responses = ResponseCache()
        self._tasks: set[Pending] = set()
        self._recorder = recorder
        self._spans = spans

    async def open(self) -> None:
        """Make the environment. Raises FactoryFault when that fails."""
        await self._executor.open(self._config.reset_timeout_s)
        self.last_activity = time.monotonic()  # an environment that takes long to make is no idle client

    def request(self, request: SessionRequest) -> Result | Pending:
        """Run a verb. Returns its response or error, or a future of that if the verb waits for something.

        A request whose id this session has seen gets the result of the first one, and nothing runs twice.
        """
        verb, request_id = request.verb, request.id
        runner = self._executor.runner
        execution = None if runner is None else runner.known_execution(verb)
        if execution is None or self._fault is not None or self._turn.locked():
            return self.run_once(verb, request_id, lambda: self._run(request, self._turn), request.body)
        self.last_activity = time.monotonic()
        key = f"{verb} {request_id}"
        known = None if request_id is None else self._responses.get(key)
        if known is not None:
            self._responses.check_repeats(key, request.body)
            return known
        if execution == "inline":
            result = self._advance(self._run(request, _NO_WAIT, runner), None)
        else:
            context = contextvars.copy_context()  # both parts of the verb, before and after its thread, run in this one
            result = context.run(self._advance, self._run(request, self._turn), context)
        if request_id is not None:
            self._responses.put(key, result, request.body)
        return result

    def _advance(
        self,
        run: Coroutine[Any, Any, EncodedResponse],
        context: contextvars.Context | None,
        pending: Pending | None = None,
    ) -> Result | Pending:
        """Run a coroutine that waits for nothing, or for its thread: without a task, which costs more than most steps.

        Returns what it ends with, or a future of that. context: the current one, for the second time; None: there is
        none. pending: that future, after the first time.
        """
        result: Result
        try:
            waits_for: asyncio.Future[Any] = run.send(None)
        except StopIteration as end:
            result = end.value
        except BaseException as error:  # noqa: BLE001  border: the verb may have run, a repeated request gets the error
            result = self._refused(error)
        else:
            pending = pending or asyncio.get_running_loop().create_future()
            waits_for.add_done_callback(lambda _: self._advance(run, context, pending), context=context)
            return pending
        if pending is not None and not pending.done():
            pending.set_result(result)
        return result

    async def respond(self, request: SessionRequest) -> EncodedResponse:
        """The response to a request. Raises RequestRefused."""
        result = self.request(request)
        if isinstance(result, asyncio.Future):
            result = await asyncio.shield(result)
        if isinstance(result, RequestRefused):
            raise result
        return result

    def run_once(
        self,
        verb: str,
        request_id: str | None,
        run: Callable[[], Coroutine[Any, Any, EncodedResponse]],
        body: Body = None,
    ) -> Result | Pending:
        """`request` for a coroutine of the caller's.

        It runs in a task of its own: a client that disconnects can repeat the request for its response.
        """
        if verb != "describe":  # any caller's question, no activity of the session's client
            self.last_activity = time.monotonic()
        key = f"{verb} {request_id}"
        known = None if request_id is None else self._responses.get(key)
        if known is not None:
            self._responses.check_repeats(key, body)
            return known
        task = asyncio.get_running_loop().create_task(self._result_of(run()))
        if request_id is not None:
            self._responses.put(key, task, body)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _result_of(self, run: Awaitable[EncodedResponse]) -> Result:
        try:
            return await run
        except asyncio.CancelledError:  # the event loop ends
            raise
        except BaseException as error:  # noqa: BLE001  border: every caller with this id gets the error, of any kind
            return self._refused(error)

    def _refused(self, error: BaseException) -> RequestRefused:
        """The error to answer with. It is kept, so its traceback must not keep frames of environment code alive."""
        if not isinstance(error, RequestRefused):
            log.error("session %s: a request failed unexpectedly", self.id, exc_info=error)
            name = type(error).__name__
            error = EnvironmentFault(f"the request failed in the server ({name}): see its log")
        error.__traceback__ = error.__cause__ = error.__context__ = None
        return error

    async def _run(
        self,
        request: SessionRequest,
        turn: contextlib.AbstractAsyncContextManager[None],
        inline_runner: EnvRunner | None = None,
    ) -> EncodedResponse:
        """Run a verb in its turn, with all bookkeeping: episode, metrics, span, record, log context.

        turn: the session's lock. An inline verb needs none, since it ends before any other can start. It runs in
        `inline_runner`, and this coroutine awaits nothing.
        """
        verb, data, _, timeout_s, traceparent, keywords, _ = request
        requested = time.monotonic()
        async with turn:
            began = time.monotonic()
            try:
                if verb == "reset":
                    data = self._begin_episode(data)
                current_episode.set(self._episode)
                with self._spans.span(verb, self._episode, traceparent) if self._spans else _NO_SPAN:
                    if self._fault is not None or self.has_ended:
                        await self._recover(verb)
                    if self._episode_is_over and verb == "step" and not self._executor.allow_step_after_done:
                        raise EpisodeOver("The episode is over: reset before the next step")
                    limit_s = self._config.reset_timeout_s if verb == "reset" else self._config.step_timeout_s
                    if timeout_s is not None:
                        limit_s = min(timeout_s, limit_s)
                        keywords = {"timeout_s": timeout_s, **keywords}
                    if inline_runner is not None:
                        response = call_with_timeout(verb, limit_s, inline_runner.call, verb, data, keywords)
                    else:
                        response = await self._executor.call(verb, data, keywords, limit_s)
                if verb in EPISODE_VERBS:
                    self._episode_is_over = response.done
                    if verb == "step":
                        self.num_steps += response.num_steps
                    if response.done:
                        log.info("episode is over: %s", "truncated" if response.truncated else "terminated")
                self._metrics.observe(verb, began - requested, response.environment_s, response.encode_s)
                if verb in _SEEN_VERBS:
                    if self._recorder is not None:
                        self._recorder.record_response(verb, data, response, time.monotonic() - began)
                    for watcher in self.watchers:
                        watcher.on_response(verb, data, response)
                return response
            except RequestRefused as error:
                if isinstance(error, EnvironmentFault) and verb in _NEEDS_RESET and not self.has_begun:
                    error.message += " (no reset came before it: reset first)"
                self._on_error(verb, data, error, time.monotonic() - began)
                raise
            finally:
                if verb != "describe":
                    self.last_activity = time.monotonic()
                current_episode.set(None)

    def _begin_episode(self, data: dict[str, Any]) -> dict[str, Any]:
        """Count a reset. Returns its data; of a recorded session they have a seed."""
        if self._recorder is not None:
            data = self._recorder.with_seed(data)
        self._num_resets += 1
        self._episode = EpisodeContext(self.id, str(data.get("episode_id") or self._num_resets))
        current_episode.set(self._episode)
        log.info("episode begins: seed=%r", data.get("seed"))
        return data

    async def _recover(self, verb: str) -> None:
        """Make another environment after a fault, for a reset. Raises for other verbs, and if the session has ended."""
        if self.has_ended:
            raise SessionFault(f"Session {self.id} has ended: open a new one")
        if self._fault is not None:
            if verb not in _RECOVERING_VERBS:
                raise type(self._fault)(f"The episode is gone ({self._fault.message})")
            await self._executor.restart()
            self._fault = None

    def _on_error(self, verb: str, data: dict[str, Any], error: RequestRefused, took_s: float) -> None:
        if self._fault is None and isinstance(error, TimeLimitExceeded | WorkerCrashed):
            self._fault = error
        self._metrics.count_error(error.code)
        if error.validity == "invalid" or isinstance(error, EnvironmentFault):
            # an environment that raises is common, other faults are not
            level = logging.INFO if isinstance(error, EnvironmentFault) else logging.WARNING
            log.log(level, "%s failed: %s %s", verb, error.code, error.message)
        if verb in _SEEN_VERBS:
            if self._recorder is not None:
                self._recorder.record_error(verb, data, error, took_s)
            for watcher in self.watchers:
                watcher.on_error(verb, data, error)

    async def save(self) -> bytes:
        """The environment's snapshot, and whether its episode is over. Raises NotSupported."""
        snapshot = await self._run(SessionRequest("save", {}), self._turn)
        return bytes([self._episode_is_over]) + snapshot.data

    async def load(self, snapshot: bytes) -> None:
        """Continue from what `save` of a session of this server returned."""
        await self._run(SessionRequest("load", {"snapshot": snapshot[1:]}), self._turn)
        self._episode_is_over = bool(snapshot[0])
        self._is_loaded = True

    def record_event(self, verb: str, data: dict[str, Any]) -> None:
        """Record that the session was saved, restored, or forked."""
        if self._recorder is not None:
            self._recorder.record_event(verb, data)

    @property
    def has_begun(self) -> bool:
        """Whether there was a reset, or another session's episode was loaded."""
        return self._num_resets > 0 or self._is_loaded

    @property
    def is_busy(self) -> bool:
        """Whether a verb runs."""
        return self._turn.locked()

    @property
    def is_usable(self) -> bool:
        """Whether verbs run without a reset before."""
        return not self.has_ended and self._fault is None

    async def wait_until_idle(self) -> None:
        """Return when no verb runs."""
        async with self._turn:
            pass

    async def end(self) -> None:
        """Close the environment, after a verb that runs; its limit bounds the wait."""
        self.has_ended = True
        for watcher in self.watchers:
            watcher.on_end()
        async with self._turn:
            await self._executor.close()
