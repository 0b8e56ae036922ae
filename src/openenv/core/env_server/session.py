"""One session: an environment, its episode, and the answers it has given."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from openenv.core.env_server.answers_kept import AnswersKept, is_under_way, settled
from openenv.core.env_server.episode_log import Episode, current_episode
from openenv.core.env_server.hosts import Host
from openenv.core.env_server.inline_limit import RUNNING, limited_call
from openenv.core.env_server.recording import Recorder
from openenv.core.env_server.telemetry import Telemetry
from openenv.core.env_server.verbs import Answer
from openenv.core.env_server.wire import Request, extended_answer_frame, extended_error_frame
from openenv.core.errors import (
    EnvironmentFault,
    EpisodeOver,
    RequestRefused,
    SessionFault,
    TimeLimitExceeded,
    WorkerCrashed,
)

log = logging.getLogger(__name__)

_NO_SPAN = contextlib.nullcontext()
_ABOUT_THE_EPISODE = frozenset({"reset", "step"})
_RECORDED = frozenset({"reset", "step", "mcp"})

Verb = Literal["reset", "step", "state", "mcp", "describe"]


@dataclass(slots=True, frozen=True)
class Limits:
    """Seconds that the verbs of a session may take; a request may ask for less."""

    step_timeout_s: float
    reset_timeout_s: float


class Spans(Protocol):
    """Makes a span around each verb."""

    def span(self, verb: str, episode: Episode, traceparent: str | None) -> contextlib.AbstractContextManager[None]:
        """A span that lasts as long as the block."""
        ...


class Session:
    """One environment and its episode. Verbs run one after another, in the order in which they were asked for."""

    def __init__(
        self,
        session_id: str,
        host: Host,
        limits: Limits,
        telemetry: Telemetry,
        *,
        may_step_on: bool,
        recorder: Recorder | None = None,
        spans: Spans | None = None,
    ) -> None:
        """may_step_on: whether an episode may be stepped after its end. recorder: is told of every reset and step.
        spans: makes a span around each verb."""
        self.id = session_id
        self.created = self.last_activity = time.monotonic()
        self.num_steps = 0
        """Steps that were taken, in all episodes."""
        self.attachment: object | None = None
        """Whoever holds the session's connection now; None over HTTP and while the client is away."""
        self.has_ended = False
        self.is_closing = False
        """Whether it ends as soon as its connection does."""
        self.outlives_connection = False
        """Whether it was opened over HTTP, where no connection ends it."""
        self.was_attached = False
        """Whether a connection has ever played it."""
        self.branches: list[Session] = []
        """Sessions that were forked off it."""
        self._host = host
        self._limits = limits
        self._telemetry = telemetry
        self._may_step_on = may_step_on
        self._episode_is_over = False
        self._num_resets = 0
        self._episode = Episode(session_id, "0")
        self._broken: RequestRefused | None = None
        self._turn = asyncio.Lock()
        self._answers = AnswersKept()
        self._under_way: set[asyncio.Task[None]] = set()
        self._recorder = recorder
        self._spans = spans
        self._is_watched = recorder is not None or spans is not None

    async def open(self) -> None:
        """Make the environment. Raises FactoryFault when that fails."""
        await self._host.open(self._limits.reset_timeout_s)

    async def ask(
        self,
        verb: Verb,
        data: dict[str, Any],
        options: dict[str, Any] | None = None,
        request_id: str | None = None,
        traceparent: str | None = None,
    ) -> Answer:
        """Run a verb and return its answer. Raises RequestRefused. traceparent: the client's span, where it has one.

        A request that carries an id which this session has answered gets the recorded answer, and one that is still
        being worked on gets the same answer as the first: nothing happens twice.
        """
        key = None if request_id is None else f"{verb} {request_id}"
        return await self.once(key, lambda: self._run(verb, data, options or {}, traceparent))

    def ask_at_once(
        self, verb: Verb, data: dict[str, Any], options: dict[str, Any], request_id: str | None = None
    ) -> Answer | None:
        """`ask` without giving up the event loop's turn. None: something is to be waited for, and nothing was done."""
        if self._turn.locked() or self.has_ended or self._broken is not None or self._spans is not None:
            return None
        verbs = self._host.verbs
        if verbs is None or not verbs.runs_at_once(verb, data):
            return None
        key = None if request_id is None else f"{verb} {request_id}"
        known = None if key is None else self._answers.find(key)
        if known is not None:
            return None if is_under_way(known) else settled(known)
        began = self.last_activity = time.monotonic()
        if verb == "reset":
            data = self._begin_episode(data)
        else:
            current_episode.set(self._episode)
        try:
            if self._episode_is_over:
                self._refuse_after_the_end(verb)
            answer = limited_call(verbs.call, verb, data, options, self._limit(verb, options))
        except RequestRefused as error:
            self._failed(verb, data, error, began)
            if key is not None:
                self._answers.keep(key, error)
            raise
        self._succeeded(verb, data, answer, 0.0, began)
        if key is not None:
            self._answers.keep(key, answer)
        return answer

    def usual_step(self, request: Request) -> bytes | None:
        """The frame that answers a step as nearly all are, in the extended dialect: in one function what else
        `Conversation.reply` and `ask_at_once` do, since with many sessions the processor is what is short. None: it is
        anything else, and nothing was done.
        """
        verbs = self._host.verbs
        if (
            verbs is None
            or not verbs.steps_plainly
            or (verbs.told or verbs.env.execution) != "inline"
            or self._episode_is_over
            or self._turn.locked()
            or self.has_ended
            or self._broken is not None
            or self._is_watched
        ):
            return None
        _, data, request_id, _, _ = request
        key, answers = f"step {request_id}", self._answers
        if key in answers.newer or key in answers.older:
            return None
        began = self.last_activity = time.monotonic()
        current_episode.set(self._episode)
        try:
            RUNNING.verb, RUNNING.deadline = "step", began + self._limits.step_timeout_s
            try:
                answer = verbs.plain_step(data)
            finally:
                RUNNING.deadline = 0.0
        except RequestRefused as error:
            self._failed("step", data, error, began)
            answers.keep(key, error)
            return extended_error_frame(error, request_id)
        self.num_steps += 1
        if answer.done:
            self._ended(answer)
        self._telemetry.answered("step", 0.0, answer.environment_s, answer.encode_s)
        newer = answers.newer
        newer[key] = answer
        if len(newer) >= answers.full_at:
            answers.make_room()
        return extended_answer_frame("observation", answer.data, request_id, truncated=answer.truncated)

    async def once(self, key: str | None, run: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer of `run`, or the recorded one when this session has seen the request before.

        key: the request's verb and id. Whoever asks may go away meanwhile: the verb goes on and its answer is kept.
        """
        self.last_activity = time.monotonic()
        if key is None:
            return await run()
        known = self._answers.find(key)
        if known is None:
            known = asyncio.get_running_loop().create_future()
            self._answers.keep(key, known)
            task = asyncio.get_running_loop().create_task(self._record(known, run()))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(known) if isinstance(known, asyncio.Future) else settled(known)

    async def _record(self, answer: "asyncio.Future[Answer]", run: Any) -> None:
        try:
            answer.set_result(await run)
        except asyncio.CancelledError:  # the event loop ends
            answer.cancel()
            raise
        except BaseException as error:  # noqa: BLE001  border: whoever waits under this id must be told, whatever it is
            answer.set_exception(error if isinstance(error, RequestRefused) else _broken(self.id, error))
            answer.exception()  # retrieved: nobody has to ask again

    async def _run(self, verb: Verb, data: dict[str, Any], options: dict[str, Any], traceparent: str | None) -> Answer:
        asked = time.perf_counter()
        async with self._turn:
            wait_s = time.perf_counter() - asked
            began = time.monotonic()
            if verb == "reset":
                data = self._begin_episode(data)
            else:
                current_episode.set(self._episode)
            try:
                with self._spans.span(verb, self._episode, traceparent) if self._spans else _NO_SPAN:
                    answer = await self._act(verb, data, options)
            except RequestRefused as error:
                self._failed(verb, data, error, began)
                raise
            finally:
                self.last_activity = time.monotonic()
            self._succeeded(verb, data, answer, wait_s, began)
            return answer

    async def _act(self, verb: Verb, data: dict[str, Any], options: dict[str, Any]) -> Answer:
        if verb == "reset" and self._broken is not None and not self.has_ended:
            await self._host.restart()
            self._broken = None
        self._refuse_when_gone()
        self._refuse_after_the_end(verb)
        return await self._host.call(verb, data, options, self._limit(verb, options))

    def _begin_episode(self, data: dict[str, Any]) -> dict[str, Any]:
        """What a reset is run with: its data as they shall be recorded."""
        if self._recorder is not None:
            data = self._recorder.seeded(data)
        self._num_resets += 1
        self._episode = Episode(self.id, str(data.get("episode_id") or self._num_resets))
        current_episode.set(self._episode)
        log.info("episode begins: seed=%s", data.get("seed"))
        return data

    def _refuse_after_the_end(self, verb: Verb) -> None:
        if self._episode_is_over and verb == "step" and not self._may_step_on:
            raise EpisodeOver("The episode is over: reset before the next step")

    def _limit(self, verb: Verb, options: dict[str, Any]) -> float:
        most_s = self._limits.reset_timeout_s if verb == "reset" else self._limits.step_timeout_s
        if not options:
            return most_s
        asked = options.get("timeout_s")
        return min(asked, most_s) if isinstance(asked, int | float) and asked > 0 else most_s

    def _succeeded(self, verb: Verb, data: dict[str, Any], answer: Answer, wait_s: float, began: float) -> None:
        if verb in _ABOUT_THE_EPISODE:
            self._episode_is_over = False
            if verb == "step":
                self.num_steps += answer.num_steps
            if answer.done:
                self._ended(answer)
        self._telemetry.answered(verb, wait_s, answer.environment_s, answer.encode_s)
        if self._recorder is not None and verb in _RECORDED:
            self._recorder.answered(verb, data, answer, time.monotonic() - began)

    def _ended(self, answer: Answer) -> None:
        self._episode_is_over = True
        log.info("episode is over: %s", "truncated" if answer.truncated else "terminated")

    def _failed(self, verb: Verb, data: dict[str, Any], error: RequestRefused, began: float) -> None:
        if self._broken is None and isinstance(error, TimeLimitExceeded | WorkerCrashed):
            self._broken = error
        self._telemetry.failed(error.code)
        if error.validity == "invalid":  # an environment that raises is every day's work, all else is not
            level = logging.INFO if isinstance(error, EnvironmentFault) else logging.WARNING
            log.log(level, "%s failed: %s %s", verb, error.code, error.message)
        if self._recorder is not None and verb in _RECORDED:
            self._recorder.refused(verb, data, error, time.monotonic() - began)

    @property
    def is_busy(self) -> bool:
        """Whether a verb runs."""
        return self._turn.locked()

    @property
    def is_sound(self) -> bool:
        """Whether verbs can be run without a reset before."""
        return not self.has_ended and self._broken is None

    async def save(self) -> bytes:
        """The environment's snapshot, with whether its episode is over. Raises NotSupported when it has none."""
        async with self._turn:
            self._refuse_when_gone()
            snapshot = await self._call_host("save", {})
            return bytes([self._episode_is_over]) + snapshot.data

    async def load(self, snapshot: bytes) -> None:
        """Continue from what `save` of a session of this server returned."""
        async with self._turn:
            if self._broken is not None and not self.has_ended:
                await self._host.restart()
                self._broken = None
            self._refuse_when_gone()
            await self._call_host("load", {"snapshot": snapshot[1:]})
            self._episode_is_over = bool(snapshot[0])

    async def _call_host(self, verb: str, data: dict[str, Any]) -> Answer:
        """What outlives its limit may still change the episode: it is gone, as after a step."""
        try:
            return await self._host.call(verb, data, {}, self._limits.step_timeout_s)
        except (TimeLimitExceeded, WorkerCrashed) as error:
            self._broken = error
            raise

    def note(self, verb: str, data: dict[str, Any]) -> None:
        """Count and record what happened to the whole session: that it was saved, restored, or branched."""
        self._telemetry.counted(verb)
        if self._recorder is not None:
            self._recorder.noted(verb, data)

    def _refuse_when_gone(self) -> None:
        if self.has_ended:
            raise SessionFault(f"Session {self.id} has ended: open a new one")
        if self._broken is not None:
            raise type(self._broken)(f"The episode is gone ({self._broken.message})")

    async def idle(self) -> None:
        """Return when no verb runs."""
        async with self._turn:
            pass

    async def end(self) -> None:
        """Close the environment. A verb that runs is waited for, at most as long as its limit."""
        self.has_ended = True
        async with self._turn:
            await self._host.close()


def _broken(session_id: str, error: BaseException) -> EnvironmentFault:
    log.error("session %s: a request failed in an unforeseen way", session_id, exc_info=error)
    return EnvironmentFault(f"the request failed in the server ({type(error).__name__}): its log says more")
