"""Which session an HTTP request means: the one that it names, a new one, or its caller's own."""

import asyncio
import weakref

from fastapi import Request

from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.errors import SessionFault
from openenv.core.protocol import NEW_SESSION, SESSION_HEADER


class HttpSessions:
    """The sessions that HTTP requests act on. A caller is known by its address, and has one session of its own."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._default_of: dict[str, str] = {}
        self._opening: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def for_reset(self, request: Request, session_id: str | None) -> Session:
        """The named session, a new one, or the caller's own, opened again when it has ended."""
        if session_id == NEW_SESSION:
            return await self._sessions.open(outlives_connection=True)
        if session_id is not None:
            return self._sessions.find(session_id)
        return await self._own(request, may_replace=True)

    async def for_verb(self, request: Request, session_id: str | None) -> Session:
        """The named session, or the caller's own, opened at its first use.

        Raises SessionFault when there is none of that name, or when the caller's own has ended: only a reset opens
        another, so that no step acts in an episode that nobody began.
        """
        if session_id is not None:
            return self._sessions.find(session_id)
        return await self._own(request, may_replace=False)

    async def end(self, session_id: str) -> None:
        """End the session of that id."""
        await self._sessions.end(self._sessions.find(session_id))

    async def _own(self, request: Request, *, may_replace: bool) -> Session:
        caller = self._sessions.commons.caller(request)
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
