"""What a run has before its first step: the model, loaded or pretrained, and the environments that it plays."""

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedModel

from openenv.auto.environment import ServedEnvironment
from openenv.core.session_pool import SessionPool
from openenv.evaluation.episodes import EpisodeSessions
from openenv.rl.agents.episodes import AgentEpisodes
from openenv.rl.agents.kinds import agent_of
from openenv.rl.agents.program import Agent
from openenv.rl.agents.rollout import AgentRollout
from openenv.rl.algorithm.curricula import shares
from openenv.rl.algorithm.rewards import EpisodeReward, RandomReturns, Reward
from openenv.rl.budget import Budget
from openenv.rl.config import Config, EnvConfig
from openenv.rl.environments import labels
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.models.chat import Chat
from openenv.rl.models.language_model import checkpoint_activations
from openenv.rl.planning.plan import with_planned_passes
from openenv.rl.progress import OnProgress
from openenv.rl.random_play import random_play, require_signal
from openenv.rl.rollouts.rollout import Rollout
from openenv.rl.starting_model import (
    StartingModel,
    groups_in_batch,
    make_starting_model,
    require_agreement,
    require_room,
)
from openenv.rl.supervised_phase import pretrain_on, warm_start
from openenv.rl.training.checkpoint import Checkpoints
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


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run that can make its first step, or its next."""

    config: Config
    """With the lengths of passes that fit."""
    model: PreTrainedModel
    """The model before GRPO, which the run's folder has too."""
    environments: Sequence[TrainingEnvironment]
    batch_size: int
    """Number of groups in one training step."""


def resumed(config: Config, served: Sequence[ServedEnvironment], reward: Reward | None) -> Prepared:
    """A run of which the model before GRPO is saved."""
    checkpoints = Checkpoints(config.run_dir)
    model, tokenizer, batch_size = checkpoints.load_reference(config.model)
    returns = checkpoints.load_random_returns()
    config = checkpoints.with_passes(config)
    for environment, history in zip(served, checkpoints.load_histories() or (), strict=False):
        environment.text.history = history
    start = StartingModel(model, tokenizer, checkpoints.load_image_reader(model.config, tokenizer))
    environments = environments_of(config, served, start.chat, reward, returns)
    if config.model.gradient_checkpointing:
        checkpoint_activations(model)
    return Prepared(config=config, model=model, environments=environments, batch_size=batch_size)


async def begun(
    config: Config, served: Sequence[ServedEnvironment], reward: Reward | None, budget: Budget, on_progress: OnProgress
) -> Prepared:
    """A new run: random play, and a model that is loaded, or created and pretrained. It is saved."""
    checkpoints = Checkpoints(config.run_dir)
    played = await random_play(config, served, budget, on_progress)
    returns = [RandomReturns.of(one.returns) for one in played]
    if reward is None:
        require_signal(played, config)
    if config.model.path:
        config = await asyncio.to_thread(with_planned_passes, config, played, served)
    start = await asyncio.to_thread(make_starting_model, config, played)
    environments = environments_of(config, served, start.chat, reward, returns)
    if config.model.path:
        require_agreement(start.model, environments[0].chat, config)
    for environment, one in zip(environments, played, strict=True):
        require_room(start.model, environment.chat, one, config)
    if config.model.gradient_checkpointing:
        checkpoint_activations(start.model)
    if not config.model.path:
        await pretrain_on(played, start, config, budget, on_progress)
    elif config.warm_start is not None:
        await warm_start(config.warm_start, environments, start, config, budget, on_progress)
    batch_size = groups_in_batch(config, played)
    checkpoints.save_reference(start.model, environments[0].chat, batch_size)
    checkpoints.save_passes(config)
    checkpoints.save_histories([environment.text.history for environment in served])
    checkpoints.save_random_returns(returns)
    return Prepared(config=config, model=start.model, environments=environments, batch_size=batch_size)


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
    return SessionPool(environment.served.client, environment.served.base_urls, wanted, may_share=may_share)


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
