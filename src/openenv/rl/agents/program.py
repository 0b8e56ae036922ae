"""An agent's program in one episode: what it is given, how it plays, and how it fails."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from openenv.agents.endpoint.requests import AnswersRequests
from openenv.agents.endpoint.server import Endpoint
from openenv.evaluation.episodes import EpisodeSessions, FreeSessions
from openenv.rl.agents.environment import EnvironmentEpisode

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What a program is given."""

    instructions: str
    """The rules of the environment."""
    observation: str
    """What it shows first."""
    base_url: str
    """Of the model's service, for OpenAI's clients: it ends with /v1."""
    api_key: str
    mcp_url: str
    """The environment's functions, by MCP."""
    environment: Mapping[str, str]
    """The variables of a process, with the above."""


class AgentFailed(Exception):
    """A program that has not ended as it should. The message has the reason."""


class Agent(Protocol):
    """Plays one episode."""

    async def __call__(self, task: AgentTask) -> Any:
        """Play it. Raises AgentFailed, or whatever the program raises."""
        ...


def end_of_text(output: bytes) -> str:
    """The last lines of an output."""
    return output.decode("utf-8", "replace").strip()[-1000:]


class EpisodeModel(AnswersRequests, Protocol):
    """The model of one episode."""

    def stop(self) -> None:
        """The episode's time is over."""
        ...


async def in_sessions(
    pool: EpisodeSessions, at_once: int, episodes: Sequence[_In], play: Callable[[_In, int], Awaitable[_Out]]
) -> list[_Out]:
    """Play episodes, each in a free session, at most some at once. Raises what the first that fails raises."""
    sessions, places = FreeSessions(pool), asyncio.Semaphore(at_once)

    async def one(seeds: _In) -> _Out:
        async with places, sessions.one() as session:
            return await play(seeds, session)

    try:
        async with asyncio.TaskGroup() as tasks:
            playing = [tasks.create_task(one(seeds)) for seeds in episodes]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None  # the first caused the others
    return [task.result() for task in playing]


async def run_program(
    agent: Agent, limit_s: float, endpoint: Endpoint, model: EpisodeModel, episode: EnvironmentEpisode
) -> None:
    """Let a program play an episode that has begun. One that fails makes it invalid: no reward is that of a failure."""
    if episode.is_done:
        return
    key = endpoint.open(model, episode)
    over = asyncio.get_running_loop().call_later(limit_s, model.stop)
    try:
        async with asyncio.timeout(limit_s) as limit:
            await agent(_task(endpoint, key, episode))
        episode.stop("the program has ended before the episode")
    except Exception as failure:  # noqa: BLE001  border: a program may raise anything
        if limit.expired():
            model.stop()  # also calls that have arrived since
            episode.stop(f"stopped after agent.time_limit_s={limit_s:g}")
            return
        error: BaseException = failure
        while isinstance(error, BaseExceptionGroup):  # as the clients of MCP raise what happens inside them
            error = error.exceptions[0]
        episode.fail(f"the agent has failed: {type(error).__name__}: {error}")
    finally:
        over.cancel()
        endpoint.close(key)


def _task(endpoint: Endpoint, key: str, episode: EnvironmentEpisode) -> AgentTask:
    tools_url = f"{endpoint.base_url_with(key)}/mcp"
    return AgentTask(
        instructions=episode.rules,
        observation=episode.seen,
        base_url=f"{endpoint.base_url}/v1",
        api_key=key,
        mcp_url=tools_url,
        environment={
            **endpoint.environment_variables(key),
            "OPENENV_MCP_URL": tools_url,
            "OPENENV_INSTRUCTIONS": episode.rules,
            "OPENENV_OBSERVATION": episode.seen,
        },
    )
