"""What stands behind a client: its session, opened when first needed, and its server, when it owns one."""

import asyncio
from dataclasses import replace

from openenv.core.async_session import AsyncRequests, AsyncSession
from openenv.core.blocking_session import BlockingRequests, BlockingSession
from openenv.core.connection import Address
from openenv.core.containers.runtime.owned import OwnedServer
from openenv.core.containers.runtime.providers import ContainerProvider, RuntimeProvider
from openenv.core.errors import SessionGone


class SessionOwner:
    """Opens and ends one session in either mode; starts and stops the server of a provider around it."""

    def __init__(
        self, address: Address, provider: ContainerProvider | RuntimeProvider | None, session_id: str | None
    ) -> None:
        """address: with an empty base_url when the provider is still to start the server."""
        self._address = address
        self._starts_server = not address.base_url
        self._server = None if provider is None else OwnedServer(provider, is_running=not self._starts_server)
        self._attach_to = session_id
        self._is_async = False
        self._blocking: BlockingRequests | None = None
        self._async: AsyncRequests | None = None
        self._opening = asyncio.Lock()

    @property
    def base_url(self) -> str | None:
        """Where the server listens; None until the provider has started it."""
        return self._address.base_url or None

    @property
    def session_id(self) -> str | None:
        """The session's name on the server; None before the first verb, and on servers that do not tell."""
        session = self._async if self._is_async else self._blocking
        return session.session_id if session else self._attach_to

    # What HTTPEnvClient does in its own way.

    def _open_session(self) -> BlockingRequests:
        return BlockingSession(self._address, self._attach_to)

    async def _open_session_async(self) -> AsyncRequests:
        return await AsyncSession.open(self._address, self._attach_to)

    # Synchronous mode.

    def _connected(self, *, is_reset: bool = False) -> BlockingRequests:
        """The session. Opens it, and starts the server before, when there is none. is_reset: whether another will do
        when the one to attach to is gone."""
        if self._blocking is None:
            starts = self._start_server()
            try:
                self._blocking = self._open_or_replace() if is_reset else self._open_session()
            except BaseException:
                if starts:
                    self._stop_server()
                raise
        return self._blocking

    def _open_or_replace(self) -> BlockingRequests:
        try:
            return self._open_session()
        except SessionGone:
            self._attach_to = None
            return self._open_session()

    def _end_session(self) -> None:
        session, self._blocking, self._attach_to = self._blocking, None, None
        if session is not None:
            session.close()

    def _start_server(self) -> bool:
        """Start the client's own server unless it runs. Returns whether that was necessary."""
        if self._address.base_url:
            return False
        assert self._server is not None
        self._address = replace(self._address, base_url=self._server.start())
        return True

    def _stop_server(self) -> None:
        if self._server is not None:
            if self._starts_server:
                self._address = replace(self._address, base_url="")
            self._server.stop()

    # Asynchronous mode.

    async def _connected_async(self, *, is_reset: bool = False) -> AsyncRequests:
        """As `_connected`. Verbs that are awaited together as the very first ones open one session between them."""
        if self._async is None:
            async with self._opening:
                if self._async is None:
                    self._async = await self._open_async(is_reset=is_reset)
        return self._async

    async def _open_async(self, *, is_reset: bool) -> AsyncRequests:
        starts = not self._address.base_url
        try:
            await self._start_server_async()
            return await (self._open_or_replace_async() if is_reset else self._open_session_async())
        except BaseException:
            if starts:
                await asyncio.to_thread(self._stop_server)
            raise

    async def _open_or_replace_async(self) -> AsyncRequests:
        try:
            return await self._open_session_async()
        except SessionGone:
            self._attach_to = None
            return await self._open_session_async()

    async def _start_server_async(self) -> None:
        if not self._address.base_url:
            assert self._server is not None
            self._address = replace(self._address, base_url=await asyncio.to_thread(self._server.start))

    async def _end_session_async(self) -> None:
        async with self._opening:  # a session that is just being opened is ended too
            session, self._async, self._attach_to = self._async, None, None
            if session is not None:
                await session.close()
        if not self._opening.locked():
            self._opening = asyncio.Lock()  # the client may be used in another event loop from now on

    def _forget_lost_session(self) -> None:
        """A reset may open a new session when the old one is gone; a step may not: it would act in another episode."""
        if self._blocking is not None and self._blocking.is_lost:
            self._blocking.close()
            self._blocking = self._attach_to = None
        if self._async is not None and self._async.is_lost:
            self._async = self._attach_to = None
