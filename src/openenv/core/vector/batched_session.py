"""Environments of one server that share a session: one request steps them, and each has its own result."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, Self

import orjson

from openenv.core.client.address import Address, Endpoint
from openenv.core.client.async_transport import AsyncSession
from openenv.core.client_types import ActT, ObsT, StepResult
from openenv.core.errors import NotSupported, OpenEnvError, error_from_wire
from openenv.core.wire.client_codec import Request

Results = dict[int, StepResult[ObsT] | OpenEnvError]


class BatchedSession(Generic[ActT, ObsT]):
    """`num_envs` environments, numbered from 0. Any of them can be reset or stepped together."""

    def __init__(
        self,
        address: Address,
        num_envs: int,
        encode_action: Callable[[ActT], bytes],
        read_result: Callable[[dict[str, Any]], StepResult[ObsT]],
    ) -> None:
        """Opens nothing yet. encode_action, read_result: as the client of one environment does it."""
        self._session = _session(address, num_envs)
        self._encode_action = encode_action
        self._read_result = read_result

    @classmethod
    async def open_for(
        cls,
        address: Address,
        num_envs: int,
        encode_action: Callable[[ActT], bytes],
        read_result: Callable[[dict[str, Any]], StepResult[ObsT]],
    ) -> list[Self]:
        """One session for each worker of the server; environment i is number i // workers in session i % workers.

        Returns none where each environment should have a session of its own: where environments run in threads or
        processes, which would wait for one another, and at servers that hold one environment in a session.
        """
        opened: list[Self] = []
        async with contextlib.AsyncExitStack() as on_error:
            try:
                num_sessions = min(await _num_workers(address), num_envs)
                for number in range(num_sessions):
                    size = len(range(number, num_envs, num_sessions))
                    opened.append(cls(address, size, encode_action, read_result))
                    on_error.push_async_callback(opened[-1].close)
                    await opened[-1]._session.connect()
            except NotSupported:
                return []
            on_error.pop_all()
        return opened

    async def reset(self, requests: Mapping[int, Mapping[str, Any]]) -> Results[ObsT]:
        """Begin episodes: the keywords of a reset by environment. Opens a new session if the last one is lost.

        Environments of a lost session have lost their episodes; they return errors until they are reset.
        """
        data = {"env_ids": list(requests), "resets": list(map(dict, requests.values()))}
        return await self._request("reset", data, list(requests))

    async def step(self, actions: Mapping[int, ActT]) -> Results[ObsT]:
        """Take actions, by environment."""
        bodies = b",".join([self._encode_action(action) for action in actions.values()])
        data = b'{"env_ids":%b,"actions":[%b]}' % (orjson.dumps(list(actions)), bodies)
        return await self._request("step", data, list(actions))

    async def close(self) -> None:
        """End the session."""
        await self._session.disconnect()

    async def _request(self, kind: str, data: Any, env_ids: list[int]) -> Results[ObsT]:
        if not env_ids:
            return {}
        try:
            answers = await self._session.request(Request(kind, data), _answers)
        except OpenEnvError as error:
            return dict.fromkeys(env_ids, error)
        return {
            env_id: error_from_wire(answer["error"]) if "error" in answer else self._read_result(answer)
            for env_id, answer in zip(env_ids, answers, strict=True)
        }


def _answers(data: dict[str, Any]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = data["answers"]
    return answers


def _session(address: Address, num_envs: int) -> AsyncSession:
    query = f"num_envs={num_envs}&autoreset=disabled&stacked=false"
    return AsyncSession(Endpoint(replace(address, query=query, reads_arrays=True)))


async def _num_workers(address: Address) -> int:
    """The server's workers; 0 if its environments do not run in its event loop. Opens a session to find out."""
    probe = _session(address, 1)
    try:
        await probe.connect()
        spec = probe.hello.get("vector", {"execution": "elsewhere", "num_workers": 0})
    finally:
        await probe.disconnect()
    num_workers: int = spec["num_workers"]
    return num_workers if spec["execution"] == "inline" else 0
