"""One session: an environment, its episode, and the responses it keeps for repeated requests."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from openenv.core.env_server.execution.executors import EnvExecutor
from openenv.core.env_server.execution.inline_timeout import call_with_timeout
from openenv.core.env_server.observability.log_context import EpisodeContext, current_episode
from openenv.core.env_server.observability.metrics import ServerMetrics
from openenv.core.env_server.runner.env_runner import EncodedResponse, EnvRunner
from openenv.core.env_server.sessions.recording import SessionRecorder
from openenv.core.env_server.sessions.response_cache import Body, ResponseCache, result_of
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
_RECORDED_VERBS = frozenset({"reset", "step", "mcp"})


@dataclass(slots=True, frozen=True)
class Limits:
    """Seconds that the verbs of a session may take; a request may have a shorter limit."""

    step_timeout_s: float
    reset_timeout_s: float


class Attachment(Protocol):
    """A connection that plays a session."""

    def shut_down(self, code: int, reason: str) -> None:
        """Close the connection with a WebSocket close code and its reason, and ignore the frames that still come."""


class Session:
    """One environment and its episode. Verbs run one at a time, in the order of their requests."""

    def __init__(
        self,
        session_id: str,
        executor: EnvExecutor,
        limits: Limits,
        metrics: ServerMetrics,
        *,
        allow_step_after_done: bool,
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
        self._executor = executor
        self._limits = limits
        self._metrics = metrics
        self._allow_step_after_done = allow_step_after_done
        self._episode_is_over = False
        self._num_resets = 0
        self._episode = EpisodeContext(session_id, "0")
        self._fault: RequestRefused | None = None
        """The time limit or crash that the episode ended with. A reset makes another environment."""
        self._turn = asyncio.Lock()
        self._responses = ResponseCache()
        self._tasks: set[asyncio.Task[None]] = set()
        self._recorder = recorder
        self._spans = spans

    async def open(self) -> None:
        """Make the environment. Raises FactoryFault when that fails."""
        await self._executor.open(self._limits.reset_timeout_s)

    def request(self, request: SessionRequest) -> EncodedResponse | Awaitable[EncodedResponse]:
        """Run a verb. Returns its response if the verb waits for nothing, else an awaitable. Raises RequestRefused.

        A request whose id this session has seen gets the response of the first one, and nothing runs twice.
        """
        verb, request_id = request.verb, request.id
        runner = self._executor.runner
        if runner is None or self._fault is not None or self._turn.locked() or not runner.runs_inline(verb):
            return self.run_once(verb, request_id, lambda: self._run(request, self._turn), request.body)
        self.last_activity = time.monotonic()
        key = f"{verb} {request_id}"
        known = None if request_id is None else self._responses.get(key)
        if known is not None:
            self._responses.check_repeats(key, request.body)
            return result_of(known)
        result: EncodedResponse | RequestRefused
        try:
            self._run(request, _NO_WAIT, runner).send(None)
            raise AssertionError("an inline verb waited")
        except StopIteration as end:
            result = end.value
        except RequestRefused as error:
            result = error
        except Exception as error:  # noqa: BLE001  border: the verb may have run, so a repeated request gets this error
            result = _internal_error(self.id, error)
        if request_id is not None:
            self._responses.put(key, result, request.body)
        if isinstance(result, RequestRefused):
            raise result
        return result

    async def respond(self, request: SessionRequest) -> EncodedResponse:
        """`request`, awaited."""
        response = self.request(request)
        return response if isinstance(response, EncodedResponse) else await response

    def run_once(
        self,
        verb: str,
        request_id: str | None,
        run: Callable[[], Coroutine[Any, Any, EncodedResponse]],
        body: Body = None,
    ) -> EncodedResponse | Awaitable[EncodedResponse]:
        """`request` for a coroutine of the caller's.

        With an id it runs in a task of its own: a client that disconnects can repeat the request for its response.
        """
        if verb != "describe":  # any caller's question, no activity of the session's client
            self.last_activity = time.monotonic()
        if request_id is None:
            return self._run_unrecorded(run())
        key = f"{verb} {request_id}"
        known = self._responses.get(key)
        if known is not None:
            self._responses.check_repeats(key, body)
            return result_of(known)
        loop = asyncio.get_running_loop()
        result: asyncio.Future[EncodedResponse] = loop.create_future()
        self._responses.put(key, result, body)
        task = loop.create_task(self._settle(result, run()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return asyncio.shield(result)

    async def _run_unrecorded(self, run: Awaitable[EncodedResponse]) -> EncodedResponse:
        try:
            return await run
        except RequestRefused:
            raise
        except Exception as error:  # border: the caller gets a response whatever fails
            raise _internal_error(self.id, error) from error

    async def _settle(self, result: "asyncio.Future[EncodedResponse]", run: Awaitable[EncodedResponse]) -> None:
        try:
            result.set_result(await run)
        except asyncio.CancelledError:  # the event loop ends
            result.cancel()
            raise
        except BaseException as error:  # noqa: BLE001  border: every caller with this id gets the error, of any kind
            refused = error if isinstance(error, RequestRefused) else _internal_error(self.id, error)
            refused.__traceback__ = refused.__cause__ = refused.__context__ = None  # see ResponseCache.put
            result.set_exception(refused)
            result.exception()  # marks it as retrieved: the client may never repeat the request

    async def _run(
        self,
        request: SessionRequest,
        turn: contextlib.AbstractAsyncContextManager[None],
        inline_runner: EnvRunner | None = None,
    ) -> EncodedResponse:
        """Run a verb in its turn, with all bookkeeping: episode, metrics, span, record, log context.

        turn: the session's lock. An inline verb needs none, since it ends before any other can start: it runs in
        `inline_runner`, and this coroutine then awaits nothing.
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
                    if self._episode_is_over and verb == "step" and not self._allow_step_after_done:
                        raise EpisodeOver("The episode is over: reset before the next step")
                    limit_s = self._limits.reset_timeout_s if verb == "reset" else self._limits.step_timeout_s
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
                if self._recorder is not None and verb in _RECORDED_VERBS:
                    self._recorder.record_response(verb, data, response, time.monotonic() - began)
                return response
            except RequestRefused as error:
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
        if error.validity == "invalid":  # an environment that raises is common, other faults are not
            level = logging.INFO if isinstance(error, EnvironmentFault) else logging.WARNING
            log.log(level, "%s failed: %s %s", verb, error.code, error.message)
        if self._recorder is not None and verb in _RECORDED_VERBS:
            self._recorder.record_error(verb, data, error, took_s)

    async def save(self) -> bytes:
        """The environment's snapshot, and whether its episode is over. Raises NotSupported."""
        snapshot = await self._run(SessionRequest("save", {}), self._turn)
        return bytes([self._episode_is_over]) + snapshot.data

    async def load(self, snapshot: bytes) -> None:
        """Continue from what `save` of a session of this server returned."""
        await self._run(SessionRequest("load", {"snapshot": snapshot[1:]}), self._turn)
        self._episode_is_over = bool(snapshot[0])

    def record_event(self, verb: str, data: dict[str, Any]) -> None:
        """Record that the session was saved, restored, or forked."""
        if self._recorder is not None:
            self._recorder.record_event(verb, data)

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
        async with self._turn:
            await self._executor.close()


def _internal_error(session_id: str, error: BaseException) -> EnvironmentFault:
    log.error("session %s: a request failed unexpectedly", session_id, exc_info=error)
    return EnvironmentFault(f"the request failed in the server ({type(error).__name__}): see its log")
