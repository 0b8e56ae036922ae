"""Environments of one server that share a session: each verb is one request, and each of them has its own answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Self

import orjson
from typing_extensions import TypeVar

from openenv.core.async_session import AsyncSession
from openenv.core.client_types import StepResult
from openenv.core.connection import Address
from openenv.core.errors import NotSupported, OpenEnvError, SessionGone, SessionLost, error_from_wire
from openenv.core.requests import Request

ActT = TypeVar("ActT", default=Any)
ObsT = TypeVar("ObsT", default=Any)


@dataclass(frozen=True, slots=True)
class Wire(Generic[ActT, ObsT]):
    """How a client's actions and results are written."""

    write: Callable[[ActT], bytes]
    read: Callable[[dict[str, Any]], StepResult[ObsT]]


class JointSession(Generic[ActT, ObsT]):
    """`num_envs` environments, numbered from 0, that are reset and stepped in any company."""

    def __init__(self, session: AsyncSession, address: Address, wire: Wire[ActT, ObsT], timeout_s: float) -> None:
        self._session = session
        self._address = address
        self._wire = wire
        self._timeout_s = timeout_s

    @classmethod
    async def open_for(cls, address: Address, num_envs: int, wire: Wire[ActT, ObsT], timeout_s: float) -> list[Self]:
        """Joint sessions of that many environments: one for each worker of the server, whose environment number i is
        i // workers in session i % workers. None where each environment should rather have a session of its own.

        That is so where environments run in threads or processes, which a shared session would make wait for one
        another, where there can be but one of them in a process, and at servers that hold one in each session.
        timeout_s: how long an answer is waited for.
        """
        opened: list[Self] = []
        try:
            only_one = await cls._open(address, 1, wire, timeout_s)  # to learn where it runs
            await only_one.close()
            about = only_one._session.about.get("vector", {"execution": "elsewhere"})
            num_sessions = min(about["num_workers"], num_envs) if about["execution"] == "inline" else 0
            for number in range(num_sessions):
                size = len(range(number, num_envs, num_sessions))
                opened.append(await cls._open(address, size, wire, timeout_s))
        except BaseException as error:
            for joint in opened:
                await joint.close()
            if isinstance(error, NotSupported):
                return []
            raise
        return opened

    @classmethod
    async def _open(cls, address: Address, num_envs: int, wire: Wire[ActT, ObsT], timeout_s: float) -> Self:
        address = replace(address, query=f"num_envs={num_envs}&autoreset=disabled&stacked=false", reads_arrays=True)
        return cls(await AsyncSession.open(address), address, wire, timeout_s)

    async def reset(self, requests: Mapping[int, Mapping[str, Any]]) -> dict[int, StepResult[ObsT] | OpenEnvError]:
        """Begin episodes: keywords of a reset by environment. Opens a session again when the last one is gone.

        Environments whose session is gone have lost their episodes, and say so until they are reset.
        """
        if not requests:
            return {}
        if self._session.is_lost:
            try:
                self._session = await AsyncSession.open(self._address)
            except OpenEnvError as error:
                return dict.fromkeys(requests, error)
        data = {"env_ids": list(requests), "resets": list(map(dict, requests.values()))}
        return await self._ask(Request("reset", data), list(requests))

    async def step(self, actions: Mapping[int, ActT]) -> dict[int, StepResult[ObsT] | OpenEnvError]:
        """Take actions, by environment."""
        if not actions:
            return {}
        bodies = b",".join([self._wire.write(action) for action in actions.values()])
        data = b'{"env_ids":%b,"actions":[%b]}' % (orjson.dumps(list(actions)), bodies)
        return await self._ask(Request("step", data), list(actions))

    async def close(self) -> None:
        """End the session."""
        await self._session.close()

    async def _ask(self, request: Request, env_ids: list[int]) -> dict[int, StepResult[ObsT] | OpenEnvError]:
        try:
            answers = await self._session.ask(request, self._timeout_s, lambda data: data["answers"])
        except OpenEnvError as error:
            self._session.is_lost |= isinstance(error, SessionGone | SessionLost)
            return dict.fromkeys(env_ids, error)
        return {env_id: self._read(answer) for env_id, answer in zip(env_ids, answers, strict=True)}

    def _read(self, answer: dict[str, Any]) -> StepResult[ObsT] | OpenEnvError:
        return error_from_wire(answer["error"]) if "error" in answer else self._wire.read(answer)
