"""The embedded engine: model, generator, trainer and reference in one process."""

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import torch
from transformers import PreTrainedModel

from openenv.auto.environment import ServedEnvironment
from openenv.core.session_pool import SessionPool
from openenv.evaluation.episodes import EpisodeSessions
from openenv.rl.algorithm.curricula import shares
from openenv.rl.algorithm.rewards import EpisodeReward, RandomReturns, Reward
from openenv.rl.budget import Budget
from openenv.rl.config import Config, EnvConfig, SelfPlayConfig
from openenv.rl.engines.followers import Followers
from openenv.rl.engines.trainer import EmbeddedTrainer
from openenv.rl.environments import labels
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.of_run import RunGenerators
from openenv.rl.generators.past_weights import PastWeights
from openenv.rl.models.chat import Chat
from openenv.rl.models.language_model import (
    WeightStore,
    checkpoint_activations,
    choose_algorithms,
    copy_of,
    device_of,
)
from openenv.rl.planning.memory import release_freed
from openenv.rl.planning.plan import with_planned_passes
from openenv.rl.progress import OnProgress, TrainingProgress
from openenv.rl.random_play import random_play, require_signal
from openenv.rl.reports.best_checkpoint import BestCheckpoint
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
from openenv.rl.training.rank import TrainerRank
from openenv.rl.training.trainer import Trainer, make_reference

log = logging.getLogger(__name__)


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


class EmbeddedEngine:
    """As `engines.protocol.Engine`: weights, generator, trainer and checkpoints, with what evaluations need of them."""

    def __init__(
        self,
        config: Config,
        model: PreTrainedModel,
        environments: Sequence[TrainingEnvironment],
        batch_size: int,
        budget: Budget,
    ) -> None:
        self.config = config
        self.budget = budget
        self.batch_size = batch_size
        """Number of groups in one training step."""
        self.environments = environments
        """The environments, in the order of the configuration."""
        self.chat = chat = environments[0].chat
        self._store = WeightStore()
        self.checkpoints = Checkpoints(config.run_dir)
        self.progress = TrainingProgress(step=0, training_s=0.0)
        self.executor = ThreadPoolExecutor(
            1, "generator", initializer=torch.set_num_threads, initargs=(config.threads,)
        )
        """The thread of the generators."""
        self._generators = RunGenerators(config, chat, model, str(self.checkpoints.reference))
        self._served_player: tuple[BaseGenerator, WeightStore] | None = None
        self.generator = self._generators.for_rollouts(model, self._store)
        """What rollouts sample with."""
        self._opponents = {
            self_play: self._make_opponents(self_play, model)
            for env in environments
            if (self_play := env.config.self_play)
        }
        """Generators with earlier weights. Environments with the same settings share one."""
        followers = Followers.of_torchrun(config)
        trainer = Trainer(model, make_reference(model, config), config, chat.pad_id)  # it may divide the model
        self.trainer = EmbeddedTrainer(TrainerRank(trainer, self.checkpoints, chat), self._store, followers)

    @classmethod
    async def make(
        cls,
        config: Config,
        served: Sequence[ServedEnvironment],
        reward: Reward | None,
        *,
        resume: bool,
        budget: Budget,
        on_progress: OnProgress,
    ) -> Self:
        """Load the model, or create and pretrain it, and publish its weights.

        A resumed run restores what it has saved instead.
        """
        torch.set_num_threads(config.threads)
        choose_algorithms(device_of(config.model.device), deterministic=config.model.deterministic)
        resuming = resume and Checkpoints(config.run_dir).has_reference
        if resuming:
            engine = cls._resumed(config, served, reward, budget)
        else:
            engine = await cls._begun(config, served, reward, budget, on_progress)
        try:
            if resuming:
                await engine._restore()
            await engine.trainer.publish()
            await asyncio.to_thread(engine._generators.start)
        except BaseException:
            engine.close()
            raise
        return engine

    @classmethod
    def _resumed(
        cls, config: Config, served: Sequence[ServedEnvironment], reward: Reward | None, budget: Budget
    ) -> Self:
        checkpoints = Checkpoints(config.run_dir)
        model, tokenizer, batch_size = checkpoints.load_reference(config.model)
        returns = checkpoints.load_random_returns()
        config = checkpoints.with_passes(config)
        for environment, history in zip(served, checkpoints.load_histories() or (), strict=False):
            environment.text.history = history
        start = StartingModel(model, tokenizer, checkpoints.load_image_reader(model, tokenizer))
        environments = _environments(config, served, start, reward, returns)
        if config.model.gradient_checkpointing:
            checkpoint_activations(model)
        return cls(config, model, environments, batch_size, budget)

    @classmethod
    async def _begun(
        cls,
        config: Config,
        served: Sequence[ServedEnvironment],
        reward: Reward | None,
        budget: Budget,
        on_progress: OnProgress,
    ) -> Self:
        checkpoints = Checkpoints(config.run_dir)
        played = await random_play(config, served, budget, on_progress)
        returns = [RandomReturns.of(one.returns) for one in played]
        if reward is None:
            require_signal(played, config)
        if config.model.path:
            config = await asyncio.to_thread(with_planned_passes, config, played, served)
        start = await asyncio.to_thread(make_starting_model, config, played)
        environments = _environments(config, served, start, reward, returns)
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
        return cls(config, start.model, environments, batch_size, budget)

    async def _restore(self) -> None:
        """Go on where the latest checkpoint was made, if there is one."""
        if self.checkpoints.has_any:
            self.progress = await self.trainer.restore()
            self.budget.earlier_s += self.progress.spent_s
        log.info("resumed: step=%d", self.progress.step)

    def rollout(
        self,
        pool: EpisodeSessions,
        environment: int,
        *,
        generator: BaseGenerator | None = None,
        executor: Executor | None = None,
    ) -> Rollout:
        """A rollout over sessions of an environment, with the latest published weights or with another generator."""
        played = self.environments[environment]
        self_play = played.config.self_play
        return Rollout(
            pool,
            played.served.text,
            generator or self.generator,
            played.reward,
            self.config,
            executor or self.executor,
            chat=played.chat,
            environment=environment,
            opponents=self._opponents[self_play] if self_play else None,
        )

    def _make_opponents(self, self_play: SelfPlayConfig, model: PreTrainedModel) -> BaseGenerator:
        folder = self.config.run_dir / "opponents" / f"every_{self_play.refresh}"
        past = PastWeights(self._store, self_play.refresh, folder)
        if self._generators.serve_many:
            return self._generators.served(model, past)
        return self._generators.embedded(copy_of(model), past)

    @contextlib.asynccontextmanager
    async def workers(self) -> AsyncIterator[list[list[Rollout]]]:
        """Two for each environment: one plays while the generator answers the other."""
        async with contextlib.AsyncExitStack() as pools:
            yield [
                [self.rollout(await pools.enter_async_context(self.pool(number)), number) for _ in range(2)]
                for number in range(len(self.environments))
            ]

    def pool(self, environment: int = 0, num_sessions: int | None = None) -> SessionPool[Any, Any]:
        """Sessions of an environment's server. num_sessions: None for as many as one of its rollout workers uses."""
        groups = math.ceil(self.config.groups_in_flight * shares(self.config.env)[environment])
        served = self.environments[environment].served
        number = num_sessions or groups * self.config.group_size
        # the environments of a shared session wait for each other, as those of an evaluation do
        may_share = self.config.plays_together or num_sessions is not None
        return SessionPool(served.client, served.base_url, number, may_share=may_share)

    def pin(self, version: int) -> None:
        """As `engines.protocol.Engine.pin`."""
        self._store.pin(version)

    @property
    def num_recoveries(self) -> int:
        """How often vLLM servers that had ended were started again."""
        return self._generators.num_recoveries

    async def recovered(self, known: int) -> bool:
        """As `engines.protocol.Recovering.recovered`."""
        return await self._generators.recovered(known)

    def player(self, *, temperature: float, before: bool = False, alone: bool = False) -> BaseGenerator:
        """A generator with the current weights, or those before GRPO, whose `complete` is used in evaluation.

        alone: no rollout plays meanwhile, so that the vLLM server of whole weights may have those of the evaluation.
        """
        self.release_freed()
        generator = self._player_before(alone) if before else self._player_now(alone)
        generator.temperature = temperature
        generator.seed(self.config.seed)
        return generator

    def save_best(self, best: BestCheckpoint) -> None:
        """Save the current weights as the run's best checkpoint."""
        self.trainer.save_best(best)

    def release_freed(self) -> None:
        """Give the memory of a step or an evaluation that has ended back to the system."""
        if self.config.model.path:  # a tiny model leaves nothing that is worth the time
            release_freed()

    def close(self) -> None:
        """End the threads, and the vLLM server that the run has started."""
        self.executor.shutdown(cancel_futures=True)
        self.trainer.close()
        self._generators.close()

    def _player_now(self, alone: bool) -> BaseGenerator:
        if alone and self.config.generator.is_vllm and not self._generators.serve_many:
            return self._generators.served_alone(self.trainer.model, self.trainer.publish_to)
        if not self._generators.serve_many:
            return self._generators.embedded(self.trainer.copy(), None)
        if self._served_player is None:  # one for all evaluations, so that the server keeps one adapter for them
            store = WeightStore()
            self._served_player = self._generators.served(self.trainer.model, store), store
        generator, store = self._served_player
        if store.version < self.trainer.step_count:
            self.trainer.publish_to(store)
        return generator

    def _player_before(self, alone: bool) -> BaseGenerator:
        began_so = self.config.warm_start is None if self._generators.serve_many else alone and not self.progress.step
        if self.config.generator.is_vllm and began_so:  # the server has these weights already
            return self._generators.served(self.trainer.model, None)
        before = self.checkpoints.load_reference(self.config.model)[0]
        if not self._generators.serve_many:
            return self._generators.embedded(before, None)
        store = WeightStore()
        generator = self._generators.served(before, store)
        store.publish(before, 0)
        return generator


def _environments(
    config: Config,
    served: Sequence[ServedEnvironment],
    start: StartingModel,
    reward: Reward | None,
    returns: Sequence[RandomReturns],
) -> list[TrainingEnvironment]:
    """The environments of the run. reward: None for the configured one. returns: those of random play in each."""
    return [
        TrainingEnvironment(
            label=label,
            config=settings,
            served=environment,
            chat=start.chat(enable_thinking=config.model.enable_thinking, tools=environment.text.tools()),
            reward=reward or EpisodeReward(config.reward, measured),
            random_returns=measured,
        )
        for label, settings, environment, measured in zip(labels(config.env), config.env, served, returns, strict=True)
    ]
