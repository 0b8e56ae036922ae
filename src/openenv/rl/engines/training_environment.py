"""An environment of the run, and the rollouts that play it."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from openenv.auto.environment import ServedEnvironment
from openenv.core.session_pool import SessionPool
from openenv.evaluation.episodes import EpisodeSessions
from openenv.rl.agents.episodes import AgentEpisodes
from openenv.rl.agents.kinds import agent_of
from openenv.rl.agents.program import Agent
from openenv.rl.agents.rollout import AgentRollout
from openenv.rl.algorithm.curricula import shares
from openenv.rl.algorithm.rewards import EpisodeReward, RandomReturns, Reward
from openenv.rl.config import Config, EnvConfig
from openenv.rl.environments import labels, session_pool
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.models.chat import Chat
from openenv.rl.rollouts.rollout import Rollout
from openenv.rl.waiting.server_part import ServerPart
from openenv.rl.waiting.waits import Place, Waits


@dataclass(frozen=True, kw_only=True)
class TrainingEnvironment:
    """An environment of the run, as rollouts and evaluation need it."""

    label: str
    """Its name, which no other environment of the run has."""
    config: EnvConfig
    served: ServedEnvironment
    chat: Chat
    """It shows the environment's tools."""
    reward: Reward
    random_returns: RandomReturns
    """What random play has shown about its returns."""
    agent: Agent | None
    """The run's, if it has one."""

    @property
    def server_name(self) -> str:
        """What waits call its server."""
        return f"a server of {self.label}" if self.served.further_urls else f"the server of {self.label}"

    def server_parts(self) -> list[ServerPart]:
        """Its servers, as parts of the run."""
        fleet = self.served.fleet
        processes = [None] * len(self.served.base_urls) if fleet is None else fleet.servers
        return [
            ServerPart(f"server {number} of {self.label}", url, process, patience_s=self.config.answers_within_s)
            for number, (url, process) in enumerate(zip(self.served.base_urls, processes, strict=True))
        ]


def environments_of(
    config: Config,
    served: Sequence[ServedEnvironment],
    new_chat: Callable[..., Chat],
    reward: Reward | None,
    returns: Sequence[RandomReturns],
) -> list[TrainingEnvironment]:
    """The environments of the run. reward: None for the configured one. returns: those of random play in each."""
    agent = None if config.agent is None else agent_of(config.agent)
    return [
        TrainingEnvironment(
            label=label,
            config=settings,
            served=environment,
            chat=new_chat(enable_thinking=config.model.enable_thinking, tools=environment.text.tools()),
            reward=reward or EpisodeReward(config.reward, measured),
            random_returns=measured,
            agent=agent,
        )
        for label, settings, environment, measured in zip(labels(config.env), config.env, served, returns, strict=True)
    ]


def sessions_of(
    environment: TrainingEnvironment, config: Config, number: int, num_sessions: int | None = None
) -> SessionPool[Any, Any]:
    """Sessions of an environment's servers. number: the environment's. num_sessions: None for as many as one of its
    rollout workers uses."""
    groups = math.ceil(config.groups_in_flight * shares(config.env)[number])
    # the environments of a shared session wait for each other, as those of an evaluation do
    may_share = config.plays_together or num_sessions is not None
    wanted = num_sessions or groups * config.group_size
    return session_pool(environment.served, wanted, may_share=may_share)


def rollout_of(
    config: Config,
    environment: TrainingEnvironment,
    number: int,
    pool: EpisodeSessions,
    generator: BaseGenerator,
    executor: Executor,
    place: Place,
    opponents: BaseGenerator | None = None,
) -> Rollout | AgentRollout:
    """A rollout over sessions of an environment: of the model, or of the run's agent.

    Args:
        config: the run's.
        environment: what is played.
        number: the environment's.
        pool: the sessions.
        generator: samples the model's replies.
        executor: runs the generator, one call at a time.
        place: where its waits are recorded, and what it is called there.
        opponents: as in `Rollout`.
    """
    if environment.agent is not None:
        episodes = agent_episodes(config, environment, generator, executor, place)
        return AgentRollout(episodes, pool, environment.reward, number)
    return Rollout(
        pool,
        environment.served.text,
        generator,
        environment.reward,
        config,
        executor,
        chat=environment.chat,
        environment=number,
        opponents=opponents,
        place=place,
    )


def agent_episodes(
    config: Config,
    environment: TrainingEnvironment,
    generator: BaseGenerator,
    executor: Executor,
    place: Place | None = None,
) -> AgentEpisodes:
    """The episodes of the run's agent in an environment.

    Args:
        config: the run's.
        environment: what is played.
        generator: samples the replies of the agent's model.
        executor: runs the generator, one call at a time.
        place: where their waits are recorded; None: nowhere.
    """
    assert environment.agent is not None
    return AgentEpisodes(
        config=config,
        agent=environment.agent,
        text=environment.served.text,
        chat=environment.chat.with_tools(()),
        generator=generator,
        executor=executor,
        place=place or Place(Waits()),
    )
