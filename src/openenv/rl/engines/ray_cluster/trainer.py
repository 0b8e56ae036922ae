"""The trainer of a run on a Ray cluster: one actor, or several that hold parts of the model."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError
from transformers import PreTrainedModel

from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config
from openenv.rl.engines.protocol import MOST_ENDS
from openenv.rl.engines.ray_cluster.actors import RankActor
from openenv.rl.models.divided_weights import load_weights
from openenv.rl.progress import TrainingProgress
from openenv.rl.reports.best_checkpoint import BestCheckpoint
from openenv.rl.training.checkpoint import Checkpoints

log = logging.getLogger(__name__)


class RayTrainer:
    """As `engines.protocol.Trainer`.

    Where an actor has ended, all begin again at the latest checkpoint and repeat what came after it, from the same
    groups. The weights are then those that they were, to the last bit on one kind of machine.
    """

    def __init__(self, config: Config, checkpoints: Checkpoints) -> None:
        self._config = config
        self._checkpoints = checkpoints
        self._ranks: list[Any] = []
        self._since_checkpoint: list[tuple[str, tuple[Any, ...]]] = []
        self.step_count = 0
        """Number of batches trained on, which is the policy version of the weights."""
        self.published: dict[int, Any] = {}
        """Where the weights of the newest versions are."""
        self.num_recoveries = 0
        """How often the actors were started again."""

    async def start(self) -> None:
        """Start the actors, and let them load the model before GRPO."""
        size = self._config.engine.trainer_ranks
        actor: Any = ray.remote(RankActor)
        cluster: Any = ray
        options = {"num_cpus": 1, "num_gpus": int(cluster.cluster_resources().get("GPU", 0) >= size)}
        self._ranks = [actor.options(**options).remote(self._config) for _ in range(size)]
        meeting = await self._ranks[0].meeting.remote() if size > 1 else None
        await asyncio.gather(*(one.join.remote(meeting, number, size) for number, one in enumerate(self._ranks)))

    async def step(self, groups: Sequence[Group], progress: float) -> dict[str, float]:
        """As `training.trainer.Trainer.step`."""
        metrics: dict[str, float] = await self._lasting("step", ray.put(list(groups)), progress)
        return metrics

    async def publish(self) -> None:
        """Let generators load the weights of this version."""
        first, *others = await self._with_recovery(self._weights)
        self.published[self.step_count] = first
        for version in sorted(self.published)[: -self._config.max_policy_age - 2]:
            del self.published[version]
        await asyncio.gather(*others)

    async def save(self, progress: TrainingProgress) -> None:
        """As `TrainerRank.save`."""
        await self._all("save", progress)
        self._since_checkpoint.clear()

    async def restore(self) -> TrainingProgress:
        """As `TrainerRank.restore`."""
        progress: TrainingProgress = await self._all("restore")
        return progress

    async def save_good(self) -> None:
        """As `TrainerRank.save_good`."""
        await self._lasting("save_good")

    async def restore_good(self) -> bool:
        """As `TrainerRank.restore_good`."""
        has_good: bool = await self._lasting("restore_good")
        return has_good

    def save_best(self, best: BestCheckpoint) -> None:
        """As `TrainerRank.save_best`. It blocks."""
        ray.get([one.call.remote("save_best", best) for one in self._ranks])

    def copy(self) -> PreTrainedModel:
        """A copy of the whole model in this process, with the newest weights. It blocks."""
        model = self._checkpoints.load_reference(self._config.model)[0]
        load_weights(model, ray.get(self.published[max(self.published)]))
        return model

    def close(self) -> None:
        """End the actors."""
        for one in self._ranks:
            ray.kill(one)
        self._ranks = []

    async def _lasting(self, method: str, *args: Any) -> Any:
        """Call a method whose effect is repeated where the actors begin again."""
        result = await self._all(method, *args)
        self._since_checkpoint.append((method, args))
        return result

    async def _all(self, method: str, *args: Any) -> Any:
        """Let all actors call a method, and return what the first has."""

        async def call() -> Any:
            (result, self.step_count), *_ = await asyncio.gather(
                *(one.call.remote(method, *args) for one in self._ranks)
            )
            return result

        return await self._with_recovery(call)

    async def _weights(self) -> list[Any]:
        """The weights of each actor. Those of the first stay where they are until they are needed."""
        found = [one.weights.options(num_returns=2).remote() for one in self._ranks]
        versions = await asyncio.gather(*(version for version, _ in found))
        assert set(versions) == {self.step_count}, f"weights of versions {versions} after step {self.step_count}"
        return [weights for _, weights in found]

    async def _with_recovery(self, work: Any) -> Any:
        for ends in range(1, MOST_ENDS + 1):
            try:
                return await work()
            except RayActorError as error:
                if ends == MOST_ENDS:
                    raise
                log.warning("a process of the trainer has ended, and all start again: %s", error)
                await self._begin_again()
        raise AssertionError("unreachable: the last end is raised")

    async def _begin_again(self) -> None:
        self.close()
        await self.start()
        self.num_recoveries += 1
        if self._checkpoints.has_any:
            await asyncio.gather(*(one.call.remote("restore") for one in self._ranks))
        for method, args in self._since_checkpoint:
            await asyncio.gather(*(one.call.remote(method, *args) for one in self._ranks))
