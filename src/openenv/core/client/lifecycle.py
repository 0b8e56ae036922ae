"""A client's session from its first request to its end, synchronous or asynchronous.

A transport derives from one of the two classes. It implements how a session is opened, used and ended.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from openenv.core.client.address import Endpoint
from openenv.core.client.session import ClientSession
from openenv.core.client_types import Completed
from openenv.core.errors import SessionGone
from openenv.core.net.forks import ProcessBound
from openenv.core.wire.client_codec import Request

ResultT = TypeVar("ResultT")


class Lifecycle(ProcessBound):
    """The state of a session that both kinds have. A session that is open at a fork belongs to the parent: in the child
    its verbs raise SessionLost, and `reset` opens another one."""

    def __init__(self, endpoint: Endpoint, session_id: str | None = None) -> None:
        """Opens nothing: `connect` or the first request does. session_id: attach to that session of the server instead
        of opening one."""
        super().__init__()
        self._endpoint = endpoint
        self._attach_to = session_id
        self._session: ClientSession | None = None

    @property
    def session_id(self) -> str | None:
        """The session's id on the server; None before it is open, and in the published dialect."""
        return self._attach_to if self._session is None else self._session.session_id

    @property
    def is_connected(self) -> bool:
        """Whether the session is open."""
        return self._session is not None

    @property
    def hello(self) -> dict[str, Any]:
        """What the server sent about the session when it was opened."""
        return {} if self._session is None else self._session.hello

    def _forget_gone_session(self, *, may_replace: bool) -> bool:
        """The session to attach to no longer exists: forget it if a new one may replace it. Returns whether it may."""
        attached_to, self._attach_to = self._attach_to, None if may_replace else self._attach_to
        return may_replace and attached_to is not None


class BlockingLifecycle(Lifecycle, ABC):
    """Opens a session at the first request, and its server before it. Methods return their results."""

    is_async = False

    @abstractmethod
    def request(self, request: Request, read: Callable[[dict[str, Any]], ResultT]) -> ResultT:
        """Send a request and return what `read` makes of the response's data.

        Raises AnswerTimeout, SessionLost, or the exception that an error response stands for.
        """

    @abstractmethod
    def connect(self) -> None:
        """Open the session unless it is open. Raises ServerUnreachable, or SessionGone when it no longer exists."""

    @abstractmethod
    def _end(self) -> None:
        """End the session if it is open."""

    def disconnect(self) -> Completed:
        """End the session. The next request opens a new one."""
        self._end()
        self._attach_to = None
        return Completed()

    def open_child(self, make: Callable[[], Any]) -> Any:
        """Start the server, make another client of it, and connect that client, also where an event loop runs."""
        self._endpoint.start()
        return make().__enter__()

    def close(self, children: list[Any]) -> Completed:
        """End the sessions of `children` and this one, then stop the server if the client owns it."""
        try:
            while children:
                children.pop().close()
            self.disconnect()
        finally:
            self._endpoint.stop()
        return Completed()

    def _with_server(self, attach: Callable[[], ResultT], *, may_replace: bool) -> ResultT:
        """Start the server, call `attach`, and stop the server again if that fails.

        may_replace: open a new session if the one to attach to no longer exists.
        """
        with contextlib.ExitStack() as on_error:
            if self._endpoint.start():
                on_error.callback(self._endpoint.stop)
            try:
                result = attach()
            except SessionGone:
                if not self._forget_gone_session(may_replace=may_replace):
                    raise
                result = attach()
            on_error.pop_all()
            return result


class AsyncLifecycle(Lifecycle, ABC):
    """The same in an event loop: methods return coroutines."""

    is_async = True

    def __init__(self, endpoint: Endpoint, session_id: str | None = None) -> None:
        super().__init__(endpoint, session_id)
        self._opening = asyncio.Lock()

    def leave_to_parent(self) -> None:
        """Called in a forked child."""
        self._opening = asyncio.Lock()

    @abstractmethod
    async def _end(self) -> None:
        """End the session if it is open."""

    async def disconnect(self) -> None:
        """End the session, one that is being opened too. The next request opens a new one."""
        async with self._opening:
            await self._end()
            self._attach_to = None
        if not self._opening.locked():
            self._opening = asyncio.Lock()  # the client may be used in another event loop from now on

    async def open_child(self, make: Callable[[], Any]) -> Any:
        """Start the server, make another client of it, and connect that client asynchronously."""
        await asyncio.to_thread(self._endpoint.start)
        return await make()

    async def close(self, children: list[Any]) -> None:
        """As `BlockingLifecycle.close`."""
        try:
            while children:
                await children.pop().close()
            await self.disconnect()
        finally:
            if self._endpoint.owns_server:
                await asyncio.to_thread(self._endpoint.stop)

    async def _with_server(self, attach: Callable[[], Awaitable[ResultT]], *, may_replace: bool) -> ResultT:
        """As `BlockingLifecycle._with_server`."""
        async with contextlib.AsyncExitStack() as on_error:
            if not self._endpoint.address.base_url:
                on_error.push_async_callback(asyncio.to_thread, self._endpoint.stop)
                await asyncio.to_thread(self._endpoint.start)
            try:
                result = await attach()
            except SessionGone:
                if not self._forget_gone_session(may_replace=may_replace):
                    raise
                result = await attach()
            on_error.pop_all()
            return result
