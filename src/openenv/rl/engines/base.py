"""What all engines share: the run's state, its environments, and the models that evaluations play with."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, Self

import torch

from openenv.auto.environment import ServedEnvironment
from openenv.core.session_pool import SessionPool
from openenv.evaluation.episodes import EpisodeSessions
from openenv.rl.agents.rollout import AgentRollout
from openenv.rl.algorithm.rewards import Reward
from openenv.rl.budget import Budget
from openenv.rl.config import Config
from openenv.rl.engines.followers import Followers
from openenv.rl.engines.preparation import Prepared, begun, resumed
from openenv.rl.engines.protocol import RolloutWorker, Trainer
from openenv.rl.engines.training_environment import rollout_of, sessions_of
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.of_run import RunGenerators
from openenv.rl.models.devices import choose_algorithms, device_of
from openenv.rl.planning.memory import release_freed
from openenv.rl.progress import OnProgress, TrainingProgress
from openenv.rl.reports.best_checkpoint import BestCheckpoint
from openenv.rl.rollouts.rollout import Rollout
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.waiting.waits import Place, Waits
from openenv.rl.waiting.watch import Part

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)


class RunTrainer(Trainer, Protocol):
    """What a run needs of its trainer beside what the loop does."""

    async def restore(self) -> TrainingProgress:
        """Restore the latest checkpoint, and return how far the run was."""
        ...

    def save_best(self, best: BestCheckpoint) -> None:
        """Save the current weights as the run's best checkpoint. It blocks."""
        ...

    def copy(self) -> "PreTrainedModel":
        """A copy of the whole model in this process, with the current weights. It blocks."""
        ...

    def close(self) -> None:
        """End what it has started."""
        ...


class BaseEngine(ABC):
    """As `engines.protocol.Engine`, with what evaluations need. Models that are evaluated are in this process."""

    def __init__(
        self, prepared: Prepared, budget: Budget, followers: Followers, *, servers: Sequence[int] | None = None
    ) -> None:
        """followers: the other processes of torchrun. servers: as in `RunGenerators`."""
        config = prepared.config
        self.config = config
        self.budget = budget
        self.batch_size = prepared.batch_size
        """Number of groups in one training step."""
        self.environments = prepared.environments
        """The environments, in the order of the configuration."""
        self.chat = self.environments[0].chat
        self.checkpoints = Checkpoints(config.run_dir)
        self.progress = TrainingProgress(step=0, training_s=0.0)
        self.waits = Waits()
        """What is waited for in this process."""
        self.executor = ThreadPoolExecutor(
            1, "generator", initializer=torch.set_num_threads, initargs=(config.threads,)
        )
        """The thread of the generators."""
        reference = str(self.checkpoints.reference)
        self._generators = RunGenerators(config, self.chat, prepared.model, reference, servers=servers)

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
        followers = Followers.of_torchrun(config)
        try:
            prepared = (
                resumed(config, served, reward)
                if resuming
                else await begun(config, served, reward, budget, on_progress)
            )
        except BaseException:
            followers.end()
            raise
        engine = cls(prepared, budget, followers)
        try:
            await engine.start(reward)
            if resuming:
                await engine._restore()
            await engine.trainer.publish()
        except BaseException:
            engine.close()
            raise
        return engine

    @property
    @abstractmethod
    def trainer(self) -> RunTrainer:
        """What trains."""

    @abstractmethod
    async def start(self, reward: Reward | None) -> None:
        """Start the processes that it needs. reward: as in `setup_training`."""

    @abstractmethod
    def workers(self) -> AbstractAsyncContextManager[Sequence[Sequence[RolloutWorker]]]:
        """As `engines.protocol.Engine.workers`: one for each part of a step's groups, in each environment."""

    @abstractmethod
    def pin(self, version: int) -> None:
        """As `engines.protocol.Engine.pin`."""

    def parts(self) -> list[Part]:
        """As `engines.protocol.Engine.parts`: here the servers of the environments."""
        return [part for environment in self.environments for part in environment.server_parts()]

    @property
    @abstractmethod
    def num_recoveries(self) -> int:
        """As `engines.protocol.Recovering.num_recoveries`."""

    @abstractmethod
    async def recovered(self, known: int) -> bool:
        """As `engines.protocol.Recovering.recovered`."""

    @property
    def num_server_ends(self) -> int:
        """As `engines.protocol.Engine.num_server_ends`."""
        return sum(one.served.fleet.num_ended for one in self.environments if one.served.fleet is not None)

    def rollout(
        self,
        pool: EpisodeSessions,
        environment: int,
        *,
        generator: BaseGenerator,
        executor: Executor | None = None,
        name: str = "the rollout",
    ) -> Rollout | AgentRollout:
        """A rollout over sessions of an environment: of the model, or of the run's agent.

        Args:
            pool: the sessions.
            environment: its number.
            generator: samples the model's replies.
            executor: runs the generator, one call at a time; None: the thread of the generators.
            name: for its waits.
        """
        played = self.environments[environment]
        place = Place(self.waits, name, played.server_name, "the generator")
        opponents = self._opponents_in(environment)
        return rollout_of(
            self.config, played, environment, pool, generator, executor or self.executor, place, opponents
        )

    def pool(self, environment: int = 0, num_sessions: int | None = None) -> SessionPool[Any, Any]:
        """Sessions of an environment's servers. num_sessions: None for as many as one of its rollout workers uses."""
        return sessions_of(self.environments[environment], self.config, environment, num_sessions)

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
        """End the threads, and the processes that the run has started."""
        self.executor.shutdown(cancel_futures=True)
        try:
            self.trainer.close()
        finally:
            self._generators.close()

    def _opponents_in(self, environment: int) -> BaseGenerator | None:
        """What plays the other seats of an environment; None: it has players of its own."""
        return None

    def _player_now(self, alone: bool) -> BaseGenerator:
        return self._generators.embedded(self.trainer.copy(), None)

    def _player_before(self, alone: bool) -> BaseGenerator:
        return self._generators.embedded(self.checkpoints.load_reference(self.config.model)[0], None)

    async def _restore(self) -> None:
        """Go on where the latest checkpoint was made, if there is one."""
        if self.checkpoints.has_any:
            self.progress = await self.trainer.restore()
            self.budget.earlier_s += self.progress.spent_s
        log.info("resumed: step=%d", self.progress.step)
