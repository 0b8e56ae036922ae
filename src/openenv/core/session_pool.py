"""Many sessions of one server, or of several with the same environment, played at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from numbers import Integral
from typing import Any, Generic, Self

from openenv.core.client_types import ActT, ObsT, StepResult
from openenv.core.env_client import EnvClient
from openenv.core.errors import OpenEnvError
from openenv.core.utils import check_type
from openenv.core.vector.batched_session import BatchedSession, Results


class SessionPool(Generic[ActT, ObsT]):
    """`num_sessions` sessions, numbered from 0. An error in one session is that session's result; the others go on.

    Environments that run in the server's event loop share one session, and each verb is one request. Others have a
    session each.

    Example:
        async with SessionPool(OpenSpielEnv, url, 2) as pool:
            results = await pool.reset({0: {"seed": 7}, 1: {"seed": 7}})
            results = await pool.step({0: hit, 1: stand})
    """

    def __init__(
        self,
        client_class: Callable[..., EnvClient[ActT, ObsT, Any]],
        base_url: str | Sequence[str],
        num_sessions: int,
        *,
        may_share: bool = True,
    ) -> None:
        """Opens nothing: enter the pool.

        base_url: of the server, or of several: session i plays at number i modulo their number. may_share: whether
        environments may share a session of a server.
        """
        if not callable(client_class):
            raise TypeError(f"client_class is of type {type(client_class).__name__}: give the class of a client")
        check_type("num_sessions", num_sessions, Integral, "a number of sessions")
        if num_sessions < 1:
            raise ValueError(f"num_sessions={num_sessions}: a pool has at least 1 session")
        check_type("base_url", base_url, (str, Sequence), "a text such as http://localhost:8000, or a list of several")
        servers = [base_url] if isinstance(base_url, str) else list(base_url)
        if not servers:
            raise ValueError("base_url=[]: a pool has at least 1 server")
        self._num_servers = min(len(servers), int(num_sessions))
        self._clients = [client_class(base_url=servers[index % len(servers)]) for index in range(num_sessions)]
        self._may_share = may_share
        self._batched: list[BatchedSession[ActT, ObsT]] = []

    def __len__(self) -> int:
        return len(self._clients)

    async def __aenter__(self) -> Self:
        """Connect all sessions. Raises ServerUnreachable, with none left open; a cancellation leaves none either."""
        if self._may_share and len(self) > 1:
            self._batched = await self._shared_sessions()
        if not self._batched:
            await self._connect_each()
        return self

    async def _shared_sessions(self) -> list[BatchedSession[ActT, ObsT]]:
        """Sessions that environments share, equally many of each server: environment i is in session i modulo their
        number. None where a server has others."""
        count = self._num_servers
        async with AsyncExitStack() as on_error:
            of_servers = []
            for number in range(count):
                opened = await self._clients[number].batched_sessions(len(range(number, len(self), count)))
                of_servers.append(opened)
                for session in opened:
                    on_error.push_async_callback(session.close)
            if len(set(map(len, of_servers))) > 1:
                return []
            on_error.pop_all()
        return [session for of_one_place in zip(*of_servers, strict=True) for session in of_one_place]

    async def _connect_each(self) -> None:
        async with AsyncExitStack() as on_error:
            on_error.push_async_callback(self.__aexit__)
            try:
                async with asyncio.TaskGroup() as group:
                    for client in self._clients:
                        group.create_task(client.__aenter__())
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
            on_error.pop_all()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(session.close() for session in self._batched or self._clients))

    async def reset(self, requests: Mapping[int, Mapping[str, Any]]) -> Results[ObsT]:
        """Reset sessions, each with its own keywords (`seed` among them)."""
        if self._batched:
            return await self._in_batches(BatchedSession.reset, requests)
        return await _each({index: self._clients[index].reset(**keywords) for index, keywords in requests.items()})

    async def step(self, actions: Mapping[int, ActT]) -> Results[ObsT]:
        """Step sessions, each with its own action."""
        if self._batched:
            return await self._in_batches(BatchedSession.step, actions)
        return await _each({index: self._clients[index].step(action) for index, action in actions.items()})

    async def _in_batches(self, verb: Callable[..., Any], requests: Mapping[int, Any]) -> Results[ObsT]:
        """Send each batched session the requests of its environments."""
        count = len(self._batched)
        shares = [{index // count: requests[index] for index in requests if index % count == n} for n in range(count)]
        results = await asyncio.gather(*map(verb, self._batched, shares))
        return {index: results[index % count][index // count] for index in requests}


async def _each(verbs: Mapping[int, Awaitable[StepResult[ObsT]]]) -> Results[ObsT]:
    return dict(zip(verbs, await asyncio.gather(*map(_result_or_error, verbs.values())), strict=True))


async def _result_or_error(verb: Awaitable[StepResult[ObsT]]) -> StepResult[ObsT] | OpenEnvError:
    try:
        return await verb
    except OpenEnvError as error:
        return error
