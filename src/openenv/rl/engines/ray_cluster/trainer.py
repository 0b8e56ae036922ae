"""The trainer of a run on a Ray cluster: one actor, or several that hold parts of the model."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import ray
from ray.exceptions import RayActorError, RayTaskError
from transformers import PreTrainedModel

from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config
from openenv.rl.engines.protocol import MOST_ENDS
from openenv.rl.engines.ray_cluster.actors import RankActor
from openenv.rl.engines.ray_cluster.cluster import MANY, START_LIMIT_S, cause_of, ready
from openenv.rl.engines.ray_cluster.health import ActorPart, rank_name
from openenv.rl.models.divided_weights import load_weights
from openenv.rl.progress import TrainingProgress
from openenv.rl.reports.best_checkpoint import BestCheckpoint
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.waiting.waits import Waits

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class RayTrainer:
    """As `engines.protocol.Trainer`.

    Where an actor has ended, all begin again at the latest checkpoint and repeat what came after it, from the same
    groups. The weights are then those that they were, to the last bit on one kind of machine.
    """

    def __init__(self, config: Config, checkpoints: Checkpoints, waits: Waits) -> None:
        """waits: of the driver, which has what happens too."""
        self._config = config
        self._waits = waits
        self._checkpoints = checkpoints
        self._ranks: list[Any] = []
        self._since_checkpoint: list[tuple[int, tuple[Any, ...]]] = []
        """The version after each step, and what it was made from."""
        self.step_count = 0
        """Number of batches trained on, which is the policy version of the weights."""
        self.published: dict[int, Any] = {}
        """Where the weights of the newest versions are."""
        self.num_recoveries = 0
        """How often the actors were started again."""

    async def start(self) -> None:
        """Start the actors, and let them load the model before GRPO. Raises NotReady."""
        self._loop = asyncio.get_running_loop()
        size = self._config.engine.trainer_ranks
        actor: Any = ray.remote(RankActor)
        self._ranks = [
            actor.options(num_cpus=1, max_concurrency=MANY).remote(rank_name(number), self._config, os.getcwd())
            for number in range(size)
        ]
        await ready(self._ranks, "the trainer")
        async with asyncio.timeout(START_LIMIT_S):
            meeting = await self._ranks[0].meeting.remote() if size > 1 else None
            await asyncio.gather(*(one.join.remote(meeting, number, size) for number, one in enumerate(self._ranks)))

    async def step(self, groups: Sequence[Group], progress: float) -> dict[str, float]:
        """As `training.trainer.Trainer.step`."""
        args = (ray.put(list(groups)), progress)
        metrics: dict[str, float] = await self._all("step", *args)
        self._since_checkpoint.append((self.step_count, args))
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
        """Not here: `Config` refuses `on_collapse: rollback` with Ray."""
        raise NotImplementedError

    async def restore_good(self) -> bool:
        """Not here, as `save_good`."""
        raise NotImplementedError

    def save_best(self, best: BestCheckpoint) -> None:
        """As `TrainerRank.save_best`. It blocks: call it in a thread."""
        asyncio.run_coroutine_threadsafe(self._all("save_best", best), self._loop).result()

    def copy(self) -> PreTrainedModel:
        """A copy of the whole model in this process, with the newest weights. It blocks."""
        model = self._checkpoints.load_reference(self._config.model)[0]
        load_weights(model, ray.get(self.published[max(self.published)]))
        return model

    def parts(self) -> list[ActorPart]:
        """The actors."""
        return [ActorPart(rank_name(number), one) for number, one in enumerate(self._ranks)]

    def close(self) -> None:
        """End the actors."""
        for one in self._ranks:
            ray.kill(one)
        self._ranks = []

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

    async def _with_recovery(self, work: Callable[[], Awaitable[_T]]) -> _T:
        for ends in range(1, MOST_ENDS + 1):
            try:
                if ends > 1:
                    await self._begin_again()
                return await work()
            except RayTaskError as error:
                raise cause_of(error) from None
            except RayActorError as error:
                if ends == MOST_ENDS:
                    raise
                log.warning("a process of the trainer has ended, and all start again: %s", error)
                self._waits.record("the trainer", "has ended, and begins again")
        raise AssertionError("unreachable: the last end is raised")

    async def _begin_again(self) -> None:
        """Start the actors, and repeat what came after the latest checkpoint: it may be one that was just written."""
        wanted = self.step_count
        self.close()
        await self.start()
        self.num_recoveries += 1
        found = 0
        if self._checkpoints.has_any:
            (_, found), *_ = await asyncio.gather(*(one.call.remote("restore") for one in self._ranks))
        for version, args in self._since_checkpoint:
            if version > found:
                (_, found), *_ = await asyncio.gather(*(one.call.remote("step", *args) for one in self._ranks))
        assert found == wanted, f"the trainer is at step {found}, and was at {wanted}"
