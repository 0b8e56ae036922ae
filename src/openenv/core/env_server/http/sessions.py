"""The session of an HTTP request: the one that it names, a new one, or its caller's default session."""

import asyncio
import logging
import weakref

from starlette.requests import HTTPConnection

from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.errors import SessionFault
from openenv.core.wire.constants import NEW_SESSION, SESSION_HEADER

log = logging.getLogger(__name__)

CALLER_HEADER = "x-openenv-caller"
"""Of a request that a worker forwards to another: the address of its caller."""

_MAX_ADDRESSES = 1024


class HttpSessions:
    """Finds and opens the sessions of HTTP requests. A caller is known by its address and has one default session."""

    def __init__(self, sessions: SessionManager) -> None:
        self._sessions = sessions
        self._default_of: dict[str, str] = {}
        self._sharing = _SharedCallers()
        self._opening: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def for_reset(self, request: HTTPConnection, session_id: str | None) -> Session:
        """The named session, a new one, or the caller's default session, opened again when it has ended."""
        if session_id == NEW_SESSION:
            return await self._sessions.open(outlives_connection=True)
        if session_id is not None:
            return self._sessions.find(session_id)
        return await self._default(request, may_replace=True)

    async def for_verb(self, request: HTTPConnection, session_id: str | None) -> Session:
        """The named session, or the caller's default session, opened at its first use.

        Raises SessionFault when no session has that name, or when the default session has ended: only a reset opens
        another one, so that no step acts in an episode without a reset.
        """
        if session_id is not None:
            return self._sessions.find(session_id)
        return await self._default(request, may_replace=False)

    async def end(self, session_id: str) -> None:
        """End the session of that id."""
        await self._sessions.end(self._sessions.find(session_id))

    async def _default(self, request: HTTPConnection, *, may_replace: bool) -> Session:
        caller = self._caller(request)
        self._sharing.check(request)
        lock = self._opening.setdefault(caller, asyncio.Lock())
        async with lock:
            known = self._default_of.get(caller)
            if known is not None:
                try:
                    return self._sessions.find(known)
                except SessionFault:
                    if not may_replace:
                        raise SessionFault(
                            f"Session {known} has ended: POST /reset opens another, and names it in {SESSION_HEADER}"
                        ) from None
            session = await self._sessions.open(outlives_connection=True)
            self._default_of[caller] = session.id
            return session

    def _caller(self, request: HTTPConnection) -> str:
        """The address of the caller. Raises WrongWorker when another worker keeps that caller's default session."""
        share = self._sessions.share
        if request.client is None:  # a Unix socket: of another worker, where there are several
            return request.headers.get(CALLER_HEADER, "local") if share.num_workers > 1 else "local"
        share.check_caller(request.client.host)
        return request.client.host


class _SharedCallers:
    """Warns where several programs seem to act on one default session, each in the episode of the others."""

    def __init__(self) -> None:
        self._ports: dict[str, tuple[int, int] | None] = {}
        """The last two connections of each address; None: it has been warned of."""

    def check(self, request: HTTPConnection) -> None:
        """Log a warning, once for each address."""
        if request.client is None:
            return
        address, port = request.client  # port 0: a trusted proxy's header has none
        known = self._ports.get(address, (0, 0))
        if known is None:
            return
        before, last = known
        forwarded = request.headers.get("x-forwarded-for")
        if forwarded is not None and address not in forwarded:
            self._warn(address, "is a proxy that trusted_proxies does not name, so all its callers share one session")
        elif port == before != last:
            self._warn(address, "uses its default session over two connections in turn, which may be of two programs")
        elif port != last:
            self._ports[address] = last, port
        if len(self._ports) > _MAX_ADDRESSES:
            del self._ports[next(iter(self._ports))]

    def _warn(self, address: str, what: str) -> None:
        self._ports[address] = None
        log.warning(
            "%s %s. A request with the header `%s: %s` opens a session of its own.",
            address, what, SESSION_HEADER, NEW_SESSION,
        )  # fmt: skip
