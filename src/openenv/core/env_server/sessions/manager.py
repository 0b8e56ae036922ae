"""The sessions of one server: opened up to a limit, kept while a client reconnects, ended when idle."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.exceptions import SessionNotFoundError
from openenv.core.env_server.execution.background_loop import BackgroundLoop
from openenv.core.env_server.execution.env_threads import EnvThreads
from openenv.core.env_server.execution.executors import EnvExecutor, InProcessExecutor
from openenv.core.env_server.execution.fork_server import ForkServer
from openenv.core.env_server.execution.process_executor import ProcessExecutor
from openenv.core.env_server.observability.metrics import ServerMetrics
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.runner.environment_calls import MethodArguments
from openenv.core.env_server.runner.session_options import DEFAULT_OPTIONS, SessionOptions
from openenv.core.env_server.sessions.capacity import CapacityLimiter, OnQueued
from openenv.core.env_server.sessions.recording import SessionRecorder
from openenv.core.env_server.sessions.session import Attachment, Session
from openenv.core.env_server.sessions.snapshots import Snapshots
from openenv.core.env_server.sessions.upkeep import Upkeep
from openenv.core.env_server.sessions.worker_share import WorkerShare
from openenv.core.errors import CapacityReached, SessionFault
from openenv.core.net.frames import GOING_AWAY
from openenv.core.wire.server_codec import SessionRequest

if TYPE_CHECKING:
    from openenv.core.env_server.observability.spans import VerbSpans

log = logging.getLogger(__name__)

STOPPING = "The server is stopping and opens no new sessions"
RETRY_AFTER_S = 5
"""When a caller that a stopping server has refused may try again."""


class SessionManager:
    """The sessions of one server."""

    def __init__(self, spec: EnvSpec, config: ServerConfig) -> None:
        limits = {name: max(getattr(config, name), spec.longest_s) for name in ("step_timeout_s", "reset_timeout_s")}
        self.config = config = replace(config, **limits)
        self.longest_s = spec.longest_s
        """How long clients wait for a reset or a step at least; 0: as long as they have been asked to."""
        self.max_sessions = spec.limited(config.max_sessions, config.execution)
        self.is_draining = False
        """Whether new sessions are refused."""
        self._may_finish: asyncio.Event | None = None
        """While the sessions of a stopping server may go on: set when the last one has ended."""
        self._spec = spec
        self._arguments = MethodArguments(spec)
        self._sessions: dict[str, Session] = {}
        self.metrics = ServerMetrics(lambda: len(self), lambda: self.num_queued)
        self._detached_at: dict[str, float] = {}
        self._ending: set[asyncio.Task[None]] = set()
        """Ends of sessions that are under way."""
        self._upkeep = Upkeep(self.reap_idle)
        self._fork_server = ForkServer(spec) if self.execution == "process" else None
        self.take_share(WorkerShare.whole(self.max_sessions, config), lambda: None)
        self._spans = _verb_spans(spec.name) if config.trace else None
        self._loop = BackgroundLoop()
        self._threads = EnvThreads(spec)
        self._describer = _Describer(self._new_session)
        self._knows_class = spec.is_known or self._fork_server is not None
        """Whether the limits of the environments' class are in force. A forked process learns its class by itself."""
        self._first_open = asyncio.Lock()
        """Held by the first session, while the class of the environments is unknown."""

    def take_share(self, share: WorkerShare, on_load: Callable[[], None]) -> None:
        """Hold a share of the server's sessions; to be called before the first one opens.

        on_load: called when the number of sessions, or of queued callers, changes.
        """
        self.share = share
        self.capacity = CapacityLimiter(
            share.max_sessions,
            share.max_queue,
            self.config.queue_timeout_s,
            max_sessions=self.max_sessions,
            on_change=on_load,
        )
        self._snapshots = Snapshots(share.max_snapshots, share.max_snapshot_bytes)

    @property
    def execution(self) -> str:
        """Where environments run: as the server is configured, else as the environment declares."""
        return self.config.execution or self._spec.environment_cls.execution

    def start(self) -> None:
        """Start what runs beside the sessions, in the running event loop. The first session does, too."""
        self._upkeep.start(has_inline_code=self.execution != "process")

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    @property
    def num_queued(self) -> int:
        """Callers in the queue for a session."""
        return self.capacity.num_queued

    async def open(
        self,
        *,
        outlives_connection: bool = False,
        options: SessionOptions = DEFAULT_OPTIONS,
        on_queued: OnQueued | None = None,
    ) -> Session:
        """Open a session with an environment of its own, after a wait in the queue if the server is full.

        outlives_connection: whether it was opened over HTTP, and stays when a WebSocket that attached to it is gone.
        on_queued: receives the position of a caller that has to wait. Raises CapacityReached if the queue is full or
        the wait too long, and FactoryFault if the environment cannot be made.
        """
        self._refuse_while_draining()
        await self._acquire(self.capacity.acquire, on_queued)
        return await self.open_in_slot(outlives_connection=outlives_connection, options=options, on_queued=on_queued)

    def _refuse_while_draining(self) -> None:
        if self.is_draining:
            raise CapacityReached(STOPPING, retry_after_s=RETRY_AFTER_S)

    def try_acquire_slot(self) -> bool:
        """Take a slot for a session, if one is free now and the number of slots is known."""
        return not self.is_draining and self._knows_class and self.capacity.try_acquire()

    async def open_in_slot(
        self,
        *,
        outlives_connection: bool = False,
        options: SessionOptions = DEFAULT_OPTIONS,
        on_queued: OnQueued | None = None,
    ) -> Session:
        """`open` in a slot that was acquired. Raises FactoryFault and CapacityReached, and releases the slot."""
        with contextlib.ExitStack() as on_error:
            on_error.callback(self.capacity.release)
            self._refuse_while_draining()  # the server may have begun to stop while the caller was in the queue
            session = await (self._opened(options) if self._knows_class else self._opened_first(options, on_queued))
            session.outlives_connection = outlives_connection
            on_error.pop_all()
        self._sessions[session.id] = session
        log.info("session %s opened: %d of %d", session.id, len(self), self.max_sessions)
        return session

    async def _opened(self, options: SessionOptions) -> Session:
        session = self._new_session(options)
        await session.open()
        return session

    async def _opened_first(self, options: SessionOptions, on_queued: OnQueued | None) -> Session:
        """Open sessions one after another until one has made an environment, whose class says what the server may do.

        If that allows no session beside the first one, the others wait in the queue. Raises CapacityReached as `open`.
        """
        async with self._first_open:
            if not self._knows_class:
                session = await self._opened(options)
                return await self._adopt_class(session, options)
        if self.capacity.is_exceeded:
            await self._acquire(self.capacity.queue_again, on_queued)
            self._refuse_while_draining()
        return await self._opened(options)

    async def _acquire(
        self, acquire: Callable[[OnQueued | None], Coroutine[Any, Any, None]], on_queued: OnQueued | None
    ) -> None:
        try:
            await acquire(on_queued)
        except CapacityReached as error:
            self.metrics.count_error(error.code)
            raise

    async def _adopt_class(self, session: Session, options: SessionOptions) -> Session:
        """Keep what the class of the first session's environment declares. Returns the session to use."""
        if self.execution == "process":
            self._fork_server = ForkServer(self._spec)
        self._knows_class = True
        self.max_sessions = self._spec.limited(self.config.max_sessions, self.config.execution)
        if self.max_sessions < self.share.max_sessions:
            self.capacity.limit(self.max_sessions)
        if self.execution != "process":
            return session
        await session.end()  # its environment was made in this process
        return await self._opened(options)

    def _new_session(self, options: SessionOptions = DEFAULT_OPTIONS, *, is_recorded: bool = True) -> Session:
        self.start()  # an application that mounts this server's has a lifespan of its own
        session_id = self.share.new_session_id()
        return Session(
            session_id,
            self._new_executor(options),
            self.config,
            self.metrics,
            spans=self._spans,
            recorder=self._recorder(session_id) if is_recorded else None,
        )

    def _recorder(self, session_id: str) -> SessionRecorder | None:
        if self.config.record_dir is None:
            return None
        return SessionRecorder(self.config.record_dir, session_id, self._spec.name, self.config.recorded_options)

    def _new_executor(self, options: SessionOptions) -> EnvExecutor:
        if self._fork_server is not None:
            return ProcessExecutor(self._fork_server, options)
        return InProcessExecutor(self._spec, self._arguments, self._loop, self._threads, self.config.execution, options)

    def get(self, session_id: str) -> Session | None:
        """The session of that id, or None."""
        return self._sessions.get(session_id)

    def find(self, session_id: str) -> Session:
        """The session of that id. Raises SessionFault if it is unknown or has ended, WrongWorker if another worker
        opened it."""
        session = self._sessions.get(session_id)
        if session is None:
            self.share.check_session(session_id)
        if session is None or session.is_closing:
            raise SessionNotFoundError(session_id)
        return session

    def attach(self, session: Session, connection: Attachment, *, take_over: bool) -> None:
        """Give a session to a connection. take_over: close the connection that has it; else that is a SessionFault."""
        if session.attachment is not None and not take_over:
            raise SessionFault(f"Session {session.id} already has an attached WebSocket")
        if session.attachment is not None:
            session.attachment.shut_down(GOING_AWAY, "another connection has taken the session over")
        session.attachment, session.was_attached = connection, True
        self._detached_at.pop(session.id, None)

    async def detach(self, session: Session, connection: Attachment, *, keep: bool) -> None:
        """Keep the session of a closed connection for the grace period, or end it, unless another took it over."""
        if session.attachment is not connection:
            return
        session.attachment = None
        keep = (keep or session.outlives_connection) and not session.is_closing
        may_return = not self.is_draining or self._may_finish is not None
        if keep and self.config.reconnect_grace_s > 0 and may_return:
            self._detached_at[session.id] = time.monotonic()
        else:
            await self.end(session)

    async def end(self, session: Session, reason: str = "the session has ended") -> None:
        """Close a session, forget it, and close its connection with the reason; ending it twice does nothing."""
        if self._sessions.pop(session.id, None) is None:
            return
        connection, session.attachment = session.attachment, None
        self._detached_at.pop(session.id, None)
        for branch in session.branches:  # end unless a client attaches in the grace period
            if branch.id in self._sessions and not branch.was_attached:
                self._detached_at[branch.id] = time.monotonic()
        log.info("session %s ends: steps=%d", session.id, session.num_steps)
        try:
            await session.end()
        finally:
            self.capacity.release()  # after its environment has closed
            if not self._sessions:
                self.finish_drain()
            if connection is not None:
                connection.shut_down(GOING_AWAY, reason)

    def _end_soon(self, session: Session, reason: str) -> None:
        """`end` in a task of its own: an environment that takes long to close delays no other session's end."""
        task = asyncio.create_task(self.end(session, reason))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def end_when_detached(self, session: Session) -> bool:
        """Close a session as soon as no connection plays it; `find` no longer returns it. Returns whether it has
        ended."""
        if session.attachment is not None:
            session.is_closing = True
            return False
        await self.end(session)
        return True

    async def describe(self, question: str, arguments: list[Any]) -> bytes:
        """The JSON that a method of an environment returns, of one that the server keeps for such questions.

        If the server may hold one environment only, an open session is asked, else one that is opened for the question.
        Raises NotSupported, UnknownTask, and CapacityReached if no session can be opened.
        """
        request = SessionRequest("describe", {"question": question, "arguments": arguments})
        may_hold_two = self._knows_class and self._spec.limited(2, self.config.execution) == 2
        if may_hold_two:
            return await self._describer.respond(request)
        open_session = next((session for session in self._sessions.values() if session.is_usable), None)
        if open_session is not None:
            return (await open_session.respond(request)).data
        session = await self.open()
        try:
            return (await session.respond(request)).data
        finally:
            await self.end(session)

    async def drain(self) -> None:
        """Open no new sessions and wait until no verb runs; each ends by its limit at the latest.

        Before that, wait up to `drain_timeout_s` until all sessions have ended.
        """
        self.is_draining = True
        if self._sessions and self.config.drain_timeout_s > 0:
            self._may_finish = asyncio.Event()
            log.info("stopping: %d sessions may go on for %g s", len(self), self.config.drain_timeout_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.config.drain_timeout_s):
                    await self._may_finish.wait()
            self._may_finish = None
        await asyncio.gather(*(session.wait_until_idle() for session in list(self._sessions.values())))

    def finish_drain(self) -> None:
        """Let `drain` wait for sessions no longer."""
        if self._may_finish is not None:
            self._may_finish.set()

    async def end_all(self) -> None:
        """Close every session when the server stops, after the verbs that run; their limits bound the wait."""
        self.is_draining = True
        await self._upkeep.stop()
        ends = [self.end(session, "the server stops") for session in list(self._sessions.values())]
        try:
            await asyncio.gather(*self._ending, *ends, self._describer.end())
        finally:
            if self._fork_server is not None:
                await self._fork_server.stop()
            self._loop.stop()

    async def reap_idle(self) -> None:
        """End idle sessions, and those whose client has not reconnected. Runs as long as the server does."""
        config = self.config
        http_idle_timeout_s = min(config.http_idle_timeout_s, config.idle_timeout_s)
        pause_s = min(http_idle_timeout_s / 4, max(config.reconnect_grace_s, 0.2) / 4, 30.0)
        while True:
            await asyncio.sleep(pause_s)
            now = time.monotonic()
            for session in list(self._sessions.values()):
                if session.is_busy:
                    continue
                disconnected_s = now - self._detached_at.get(session.id, now)
                idle_s = now - session.last_activity
                is_alone = session.outlives_connection and session.attachment is None
                idle_timeout_s = http_idle_timeout_s if is_alone else config.idle_timeout_s
                if min(disconnected_s, idle_s) > config.reconnect_grace_s or idle_s > idle_timeout_s:
                    reason = "session %s: ended, idle for %.1f s, client disconnected for %.1f s"
                    log.info(reason, session.id, idle_s, disconnected_s)
                    self._end_soon(session, f"the session was idle for {idle_s:.0f} s")

    async def save(self, session: Session) -> str:
        """Keep a snapshot of the session and return its token. Raises NotSupported."""
        token = self._snapshots.keep(await session.save())
        session.record_event("save", {"token": token})
        return token

    async def restore(self, session: Session, token: str) -> None:
        """Continue a session from the snapshot of that token. Raises SessionFault for an unknown token."""
        await session.load(self._snapshots.find(token))
        session.record_event("restore", {"token": token})

    async def fork(self, session: Session, count: int) -> list[Session]:
        """Open `count` sessions that continue from the state of this one.

        Raises after closing all if one fails, or if this session ends meanwhile.
        """
        snapshot = await session.save()
        branches: list[Session] = []
        async with contextlib.AsyncExitStack() as on_error:
            for _ in range(count):
                branches.append(await self.open())
                on_error.push_async_callback(self.end, branches[-1])
                await branches[-1].load(snapshot)
                branches[-1].record_event("branch", {"from": session.id})
            if session.has_ended:
                raise SessionFault(f"Session {session.id} has ended while it was forked")
            on_error.pop_all()
        session.record_event("fork", {"session_ids": [branch.id for branch in branches]})
        session.branches += branches
        return branches


class _Describer:
    """The environment that a server keeps for questions about its tasks. It has no client and takes no slot."""

    def __init__(self, new_session: Callable[..., Session]) -> None:
        self._new_session = new_session
        self._session: Session | None = None
        self._opening = asyncio.Lock()

    async def respond(self, request: SessionRequest) -> bytes:
        """The JSON of a question's answer. Raises FactoryFault, and what a session does."""
        async with self._opening:
            if self._session is not None and not self._session.is_usable:  # a question outlived its time limit
                await self.end()
            if self._session is None:
                session = self._new_session(is_recorded=False)
                await session.open()
                self._session = session
            session = self._session
        return (await session.respond(request)).data

    async def end(self) -> None:
        """Close the environment, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            await session.end()


def _verb_spans(environment: str) -> "VerbSpans":
    # the extra `otel`, for servers that trace
    from openenv.core.env_server.observability.spans import VerbSpans

    return VerbSpans(environment)
