"""The sessions of one server: opened up to a limit, queued beyond it, kept for clients that return, ended when idle."""

import asyncio
import logging
import time
from typing import Any

from openenv.core.env_server.commons import Commons, OwnCommons
from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.declaration import Declaration
from openenv.core.env_server.exceptions import SessionNotFoundError
from openenv.core.env_server.hosts import Host, LocalHost
from openenv.core.env_server.loop_thread import LoopThread
from openenv.core.env_server.manner import PLAIN, Manner
from openenv.core.env_server.own_thread import SharedThread
from openenv.core.env_server.places import Places, Queued
from openenv.core.env_server.recording import SessionRecorder
from openenv.core.env_server.session import Limits, Session, Spans
from openenv.core.env_server.snapshots import Snapshots
from openenv.core.env_server.telemetry import Telemetry
from openenv.core.env_server.verbs import VerbSignatures
from openenv.core.env_server.worker import Nursery, WorkerHost
from openenv.core.errors import CapacityReached, RequestRefused, SessionFault

log = logging.getLogger(__name__)


class Sessions:
    """The sessions of one server."""

    def __init__(self, declaration: Declaration, config: ServerConfig) -> None:
        self.config = config
        self.max_sessions = declaration.limited(config.max_sessions, config.execution)
        self.is_draining = False
        self._declaration = declaration
        self._signatures = VerbSignatures(declaration.environment_cls)
        self._limits = Limits(step_timeout_s=config.step_timeout_s, reset_timeout_s=config.reset_timeout_s)
        self._sessions: dict[str, Session] = {}
        self.telemetry = Telemetry(lambda: len(self), lambda: self.num_waiting)
        self._detached_at: dict[str, float] = {}
        self._nursery = Nursery(declaration) if self.execution == "process" else None
        self.commons: Commons = OwnCommons(
            Places(self.max_sessions, config.max_waiting, config.max_wait_s),
            Snapshots(config.max_snapshots, config.max_snapshot_bytes),
            self.telemetry,
        )
        """Of all sessions of the server, of which these are some where it has several processes."""
        self._spans = _verb_spans(declaration.name) if config.trace else None
        self._loop = LoopThread()
        self._shared_thread = _shared_thread(declaration)

    @property
    def execution(self) -> str:
        """Where environments run: as the server was told, else as the author declared."""
        return self.config.execution or self._declaration.environment_cls.execution

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def num_waiting(self) -> int:
        """Callers in the queue for a session."""
        return self.commons.num_waiting

    async def open(
        self, *, outlives_connection: bool = False, manner: Manner = PLAIN, queued: Queued | None = None
    ) -> Session:
        """A new session with an environment of its own. outlives_connection: whether it is HTTP's, and so stays when
        a WebSocket that attached to it has gone. manner: how it speaks, and how many environments it has. queued: is
        told the position of a caller who has to wait.

        Waits in a queue, first come first served, while the server is full. Raises CapacityReached when the queue is
        full or the wait too long, and FactoryFault when the environment cannot be made.
        """
        if self.is_draining:
            raise CapacityReached("The server is stopping and opens no new sessions", retry_after_s=5)
        try:
            await self.commons.take_place(queued)
        except CapacityReached as error:
            self.telemetry.failed(error.code)
            raise
        return await self.open_in_place(outlives_connection=outlives_connection, manner=manner)

    def takes_place_now(self) -> bool:
        """Take a place for a session, if there is one for which nobody has to be asked or waited for."""
        return not self.is_draining and self.commons.takes_place_now()

    async def open_in_place(self, *, outlives_connection: bool = False, manner: Manner = PLAIN) -> Session:
        """`open` for whom a place was taken. Raises FactoryFault, and gives the place back."""
        try:
            session = self._new_session(manner)
            session.outlives_connection = outlives_connection
            await session.open()
        except BaseException:
            self.commons.free_place()
            raise
        self._sessions[session.id] = session
        log.info("session %s opened: %d of %d", session.id, len(self), self.max_sessions)
        return session

    def _new_session(self, manner: Manner) -> Session:
        session_id = self.commons.new_session_id()
        folder = self.config.record_dir
        return Session(
            session_id,
            self._new_host(manner),
            self._limits,
            self.telemetry,
            may_step_on=self._declaration.environment_cls.ALLOWS_STEP_AFTER_DONE,
            spans=self._spans,
            recorder=SessionRecorder(folder, session_id, self._declaration.name) if folder else None,
        )

    def _new_host(self, manner: Manner) -> Host:
        if self._nursery is not None:
            return WorkerHost(self._nursery, manner)
        execution, thread = self.config.execution, self._shared_thread
        return LocalHost(self._declaration, self._signatures, self._loop, execution, thread, manner)

    def get(self, session_id: str) -> Session | None:
        """The session of that id, or None."""
        return self._sessions.get(session_id)

    def find(self, session_id: str) -> Session:
        """The session of that id. Raises SessionFault when there is none (any more), SessionElsewhere when there is
        none here."""
        session = self._sessions.get(session_id)
        if session is None:
            self.commons.refuse_elsewhere(session_id)
        if session is None or session.is_closing:
            raise SessionNotFoundError(session_id)
        return session

    def attach(self, session: Session, connection: object, *, take_over: bool) -> None:
        """Give a session to a connection. Raises SessionFault when another has it and `take_over` is not asked for."""
        if session.attachment is not None and not take_over:
            raise SessionFault(f"Session {session.id} already has an attached WebSocket")
        session.attachment, session.was_attached = connection, True
        self._detached_at.pop(session.id, None)

    async def detach(self, session: Session, connection: object, *, keep: bool) -> None:
        """A connection is gone: keep its session for the grace period, or end it, unless another took it over."""
        if session.attachment is not connection:
            return
        session.attachment = None
        keep = (keep or session.outlives_connection) and not session.is_closing
        if keep and self.config.grace_s > 0 and not self.is_draining:
            self._detached_at[session.id] = time.monotonic()
        else:
            await self.end(session)

    async def end(self, session: Session) -> None:
        """Close a session and forget it; ending it twice does nothing."""
        if self._sessions.pop(session.id, None) is None:
            return
        self._detached_at.pop(session.id, None)
        for branch in session.branches:  # whoever was to play them is gone, unless it has begun
            if branch.id in self._sessions and not branch.was_attached:
                self._detached_at[branch.id] = time.monotonic()
        log.info("session %s ends: steps=%d", session.id, session.num_steps)
        try:
            await session.end()
        finally:
            self.commons.free_place()  # when its environment is closed, not before

    async def end_when_detached(self, session: Session) -> bool:
        """Close a session, as soon as no connection plays it any more; it can no longer be found. Returns whether that
        is so already."""
        if session.attachment is not None:
            session.is_closing = True
            return False
        await self.end(session)
        return True

    async def describe(self, question: str, arguments: list[Any]) -> bytes:
        """What an environment answers, as JSON: that of an open session in its turn, else one made for the question.

        Raises NotSupported, UnknownTask, and CapacityReached where there is no room for another.
        """
        asked = {"question": question, "arguments": arguments}
        open_session = next((session for session in self._sessions.values() if session.is_sound), None)
        if open_session is not None:
            return (await open_session.ask("describe", asked)).data
        session = await self.open()
        try:
            return (await session.ask("describe", asked)).data
        finally:
            await self.end(session)

    async def drain(self) -> None:
        """Open no new sessions and wait until no verb runs; each ends by its limit at the latest."""
        self.is_draining = True
        await asyncio.gather(*(session.idle() for session in list(self._sessions.values())))

    async def end_all(self) -> None:
        """Close every session, as the server does when it stops: steps that run are waited for, up to their limit."""
        self.is_draining = True
        await asyncio.gather(*(self.end(session) for session in list(self._sessions.values())))
        if self._nursery is not None:
            await self._nursery.stop()
        if self._shared_thread is not None:
            self._shared_thread.current.stop()
        self._loop.stop()

    async def end_forgotten(self) -> None:
        """Run for as long as the server does: end idle sessions, and those whose client has not come back."""
        pause_s = min(self.config.idle_timeout_s / 4, max(self.config.grace_s, 0.2) / 4, 30.0)
        while True:
            await asyncio.sleep(pause_s)
            now = time.monotonic()
            for session in list(self._sessions.values()):
                if session.is_busy:
                    continue
                away_s = now - self._detached_at.get(session.id, now)
                idle_s = now - session.last_activity
                if min(away_s, idle_s) > self.config.grace_s or idle_s > self.config.idle_timeout_s:
                    log.info("session %s: ended, idle for %.1f s, client away for %.1f s", session.id, idle_s, away_s)
                    await self.end(session)

    async def save(self, session: Session) -> str:
        """A token of the session's snapshot, which the server keeps. Raises NotSupported."""
        token = await self.commons.keep_snapshot(await session.save())
        session.note("save", {"token": token})
        return token

    async def restore(self, session: Session, token: str) -> None:
        """Continue a session from the snapshot of that token. Raises SessionFault for a token that is not kept."""
        await session.load(await self.commons.find_snapshot(token))
        session.note("restore", {"token": token})

    async def fork(self, session: Session, count: int) -> list[Session]:
        """New sessions that continue from where this one stands. All of them or, with the error raised, none."""
        snapshot = await session.save()
        branches: list[Session] = []
        try:
            for _ in range(count):
                branches.append(await self.open())
                await branches[-1].load(snapshot)
                branches[-1].note("branch", {"from": session.id})
        except RequestRefused:
            for branch in branches:
                await self.end(branch)
            raise
        session.note("fork", {"session_ids": [branch.id for branch in branches]})
        session.branches += branches
        return branches


def _shared_thread(declaration: Declaration) -> SharedThread | None:
    """The one thread of environments that must share it: of a library that bears no two, or of one ready instance."""
    if declaration.is_one_instance:
        return SharedThread(is_replaceable=False)
    return SharedThread(is_replaceable=True) if declaration.environment_cls.REQUIRES_SINGLE_THREAD_EXECUTOR else None


def _verb_spans(environment: str) -> Spans:
    # the extra `otel`, for servers that trace
    from openenv.core.env_server.tracing import VerbSpans

    return VerbSpans(environment)
