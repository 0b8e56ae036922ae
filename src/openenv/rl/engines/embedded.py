"""The embedded engine: model, generator, trainer and reference in one process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from transformers import PreTrainedModel

from openenv.rl.algorithm.rewards import Reward
from openenv.rl.budget import Budget
from openenv.rl.engines.base import BaseEngine
from openenv.rl.engines.followers import Followers
from openenv.rl.engines.preparation import Prepared
from openenv.rl.engines.protocol import RolloutWorker
from openenv.rl.engines.trainer import EmbeddedTrainer
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.past_weights import PastWeights, past_weights
from openenv.rl.models.language_model import copy_of
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.training.ranks import Ranks
from openenv.rl.training.trainer import Trainer, make_reference
from openenv.rl.training.trainer_rank import TrainerRank
from openenv.rl.waiting.watch import Part


class EmbeddedEngine(BaseEngine):
    """As `engines.protocol.Engine`: weights, generator, trainer and checkpoints in this process.

    With torchrun the other processes hold parts of the trainer, and do nothing else.
    """

    def __init__(self, prepared: Prepared, budget: Budget, followers: Followers) -> None:
        """As `BaseEngine`."""
        super().__init__(prepared, budget, followers)
        config, model = prepared.config, prepared.model
        self._store = WeightStore()
        self._served_player: tuple[BaseGenerator, WeightStore] | None = None
        self.generator = self._generators.for_rollouts(model, self._store)
        """What rollouts sample with."""
        self._opponents = {
            every: self._make_opponents(past, model) for every, past in past_weights(config, self._store).items()
        }
        """Generators with earlier weights, by the steps after which they follow. Environments may share one."""
        followers.begin(config)
        ranks = Ranks.of_group() if followers.are_some else Ranks()  # the model is divided last
        trainer = Trainer(model, make_reference(model, config), config, self.chat.pad_id, ranks)
        self._trainer = EmbeddedTrainer(TrainerRank(trainer, self.checkpoints, self.chat), self._store, followers)

    @property
    def trainer(self) -> EmbeddedTrainer:
        """What trains."""
        return self._trainer

    async def start(self, reward: Reward | None) -> None:
        """Start the vLLM servers, if the run has any."""
        await asyncio.to_thread(self._generators.start)

    @contextlib.asynccontextmanager
    async def workers(self) -> AsyncIterator[list[list[RolloutWorker]]]:
        """As `BaseEngine.workers`."""
        async with contextlib.AsyncExitStack() as pools:
            yield [
                [
                    self.rollout(
                        await pools.enter_async_context(self.pool(number)),
                        number,
                        generator=self.generator,
                        name=f"part {part}",
                    )
                    for part in range(self.config.engine.parts)
                ]
                for number in range(len(self.environments))
            ]

    def pin(self, version: int) -> None:
        """As `engines.protocol.Engine.pin`."""
        self._store.pin(version)

    def parts(self) -> list[Part]:
        """The servers of the environments, and of vLLM."""
        return [*super().parts(), *self._generators.parts()]

    @property
    def num_recoveries(self) -> int:
        """How often vLLM servers that had ended were started again."""
        return self._generators.num_recoveries

    async def recovered(self, known: int) -> bool:
        """As `engines.protocol.Recovering.recovered`."""
        return await self._generators.recovered(known)

    def _opponents_in(self, environment: int) -> BaseGenerator | None:
        self_play = self.environments[environment].config.self_play
        return self._opponents[self_play.refresh] if self_play else None

    def _make_opponents(self, past: PastWeights, model: PreTrainedModel) -> BaseGenerator:
        if self._generators.serve_many:
            return self._generators.served(model, past)
        return self._generators.embedded(copy_of(model), past)

    def _player_now(self, alone: bool) -> BaseGenerator:
        if alone and self.config.generator.is_vllm and not self._generators.serve_many:
            return self._generators.served_alone(self.trainer.model, self.trainer.publish_to)
        if not self._generators.serve_many:
            return super()._player_now(alone)
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
        if not self._generators.serve_many:
            return super()._player_before(alone)
        before = self.checkpoints.load_reference(self.config.model)[0]
        store = WeightStore()
        generator = self._generators.served(before, store)
        store.publish(before, 0)
        return generator
