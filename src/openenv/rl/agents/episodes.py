"""Plays episodes in which an agent's program is the policy, and records what its model has sampled."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from openenv.agents.endpoint.requests import AnswersRequests
from openenv.agents.endpoint.server import Endpoint
from openenv.evaluation.episodes import EpisodeSessions, FreeSessions
from openenv.rl.agents.environment import EnvironmentEpisode
from openenv.rl.agents.model import AgentModels, CapturedModel, TokenLimits
from openenv.rl.agents.program import Agent, AgentTask
from openenv.rl.algorithm.trajectory import Trajectory
from openenv.rl.config import Config
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.models.chat import Chat
from openenv.text.interface import TextInterface

log = logging.getLogger(__name__)

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class EpisodeModel(AnswersRequests, Protocol):
    """The model of one episode."""

    def stop(self) -> None:
        """The episode's time is over."""
        ...


class EpisodeSeeds(NamedTuple):
    """What determines an episode, beside what its program does."""

    number: int
    environment: int
    """Of the reset."""
    draws: int
    """Of the model's replies."""


@dataclass(frozen=True, kw_only=True)
class AgentEpisodes:
    """Episodes of one environment."""

    config: Config
    """That of the run."""
    agent: Agent
    text: TextInterface[Any, Any]
    """The environment's."""
    chat: Chat
    generator: BaseGenerator
    """Samples the replies of the model."""
    executor: Executor
    """Runs it."""

    async def play(
        self,
        pool: EpisodeSessions,
        episodes: Sequence[EpisodeSeeds],
        reset: Mapping[str, Any],
        on_end: Callable[[], None] = lambda: None,
    ) -> list[Trajectory]:
        """Play episodes, each by a run of the program, and return them in their order.

        The event loop has to be free meanwhile. reset: keywords of every reset. on_end: called after each episode.
        Raises what the generator fails with.
        """
        config = self.config
        limits = TokenLimits(config.max_req_tokens, config.max_res_tokens, config.conversation.max_episode_tokens)
        assert config.agent is not None
        async with Endpoint() as endpoint, self.generator.replies(self.chat, self.executor) as replies:
            models, ledger = AgentModels(self.chat, replies, limits), Counter[str]()

            async def play(seeds: EpisodeSeeds, session: int) -> Trajectory:
                trajectory, model = await self._play(endpoint, models, pool, session, seeds, reset)
                ledger.update(model.capture.ledger())
                ledger.update(model.not_given)
                on_end()
                return trajectory

            played = await in_sessions(pool, config.agent.at_once, episodes, play)
        log.info("agents: %s", ", ".join(f"{number} {name}" for name, number in sorted(ledger.items())))
        return played

    async def _play(
        self,
        endpoint: Endpoint,
        models: AgentModels,
        pool: EpisodeSessions,
        session: int,
        seeds: EpisodeSeeds,
        reset: Mapping[str, Any],
    ) -> tuple[Trajectory, CapturedModel]:
        settings = self.config.agent
        assert settings is not None
        episode = EnvironmentEpisode(pool, session, self.text, seeds.environment, self.config.conversation)
        is_limited = settings.tool_choice == "required"
        model = CapturedModel(models, seeds.number, seeds.draws, lambda: is_limited and not episode.is_done)
        await episode.begin(reset)
        await run_program(self.agent, settings.time_limit_s, endpoint, model, episode)
        if model.broken is not None:
            raise model.broken
        trajectory = episode.trajectory
        trajectory.segments = model.capture.segments()
        lost = model.capture.invalid_because
        if lost is not None and trajectory.valid:
            trajectory.outcome, trajectory.reason = "invalid", lost
        return trajectory, model


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
        log.warning("an agent has failed: %s: %s", type(error).__name__, error)
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
