"""The trainer of a run on a Ray cluster: one actor, or several that hold parts of the model."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import ray
from ray.exceptions import ObjectLostError, RayActorError, RayTaskError
from transformers import PreTrainedModel

from openenv.core.errors import NotReady
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config
from openenv.rl.engines.ray_cluster.cluster import MANY, START_LIMIT_S, ready, repeated
from openenv.rl.engines.ray_cluster.health import ActorPart, rank_name
from openenv.rl.engines.ray_cluster.object_store import naming_full_store
from openenv.rl.engines.ray_cluster.placement import Placement
from openenv.rl.engines.ray_cluster.rank_actor import RankActor
from openenv.rl.generators.probe import Probe
from openenv.rl.models.divided_weights import load_weights
from openenv.rl.progress import TrainingProgress
from openenv.rl.reports.best_checkpoint import BestCheckpoint
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.waiting.waits import Waits

log = logging.getLogger(__name__)

_END_IS_KNOWN_S = 10.0
"""Seconds within which Ray knows that a process has ended."""


class Published(NamedTuple):
    """The weights of a version."""

    place: Any
    """Where Ray has them."""
    measured: list[float] | None
    """What the probe has measured of them; None without a probe."""


_T = TypeVar("_T")


class RayTrainer:
    """As `engines.protocol.Trainer`.

    Where an actor has ended, all begin again at the latest checkpoint and repeat what came after it, from the same
    groups. The weights are then those that they were, to the last bit on one kind of machine.
    """

    def __init__(self, config: Config, checkpoints: Checkpoints, waits: Waits, probe: Probe | None) -> None:
        """
        Args:
            config: of the actors.
            waits: of the driver, which has what happens too.
            probe: measures the weights that are published, for vLLM.
        """
        self._config = config
        self._waits = waits
        self._checkpoints = checkpoints
        self._probe = probe
        self._placement: Placement
        self.ranks: list[Any] = []
        """The actors."""
        self._turn = asyncio.Lock()
        """The actors do one thing after another."""
        self._since_checkpoint: list[tuple[int, str, tuple[Any, ...]]] = []
        """What has changed the weights: the version after it, the method, and what it was given."""
        self.step_count = 0
        """Number of batches trained on, which is the policy version of the weights."""
        self.published: dict[int, Published] = {}
        """The weights of the newest versions."""
        self.num_recoveries = 0
        """How often the actors were started again."""

    async def start(self, placement: Placement) -> None:
        """Start the actors, and let them load the model before GRPO. Raises NotReady."""
        self._loop, self._placement = asyncio.get_running_loop(), placement
        size = self._config.engine.trainer_ranks
        actor: Any = ray.remote(RankActor)
        self.ranks = [
            actor.options(max_concurrency=MANY, **placement.options("rank", number)).remote(
                rank_name(number), self._config, os.getcwd()
            )
            for number in range(size)
        ]
        await ready(self.ranks, "the trainer")
        try:
            async with asyncio.timeout(START_LIMIT_S):
                meeting = await self.ranks[0].meeting.remote() if size > 1 else None
                await asyncio.gather(*(one.join.remote(meeting, number, size) for number, one in enumerate(self.ranks)))
        except TimeoutError:
            raise NotReady(f"the trainer has not loaded the model within {START_LIMIT_S:.0f} s") from None

    async def step(self, groups: Sequence[Group], progress: float) -> dict[str, float]:
        """As `training.trainer.Trainer.step`."""
        with naming_full_store(f"the groups of step {self.step_count + 1}"):
            args = (ray.put(list(groups)), progress)
            metrics: dict[str, float] = await self._all("step", *args)
        self._since_checkpoint.append((self.step_count, "step", args))
        return metrics

    async def publish(self) -> None:
        """Let generators load the weights of this version."""
        self.published[self.step_count] = await self._with_recovery(partial(self._weights, self.step_count))
        for version in sorted(self.published)[: -self._config.max_policy_age - 2]:
            del self.published[version]

    async def publish_again(self, version: int, lost: Published) -> None:
        """Publish weights again that were lost with their machine, by repeating the steps since the checkpoint."""
        async with self._turn:
            if self.published[version] is lost:  # and no other generator has missed them before
                log.warning("the weights of version %d were lost with their machine", version)
                await repeated(self._begin_again, self._named)

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
        await self._all("save_good")

    async def restore_good(self) -> bool:
        """As `TrainerRank.restore_good`."""
        has_good: bool = await self._all("restore_good")
        if has_good:
            self._since_checkpoint.append((self.step_count, "restore_good", ()))
        return has_good

    def save_best(self, best: BestCheckpoint) -> None:
        """As `TrainerRank.save_best`. It blocks: call it in a thread."""
        asyncio.run_coroutine_threadsafe(self._all("save_best", best), self._loop).result()

    def copy(self) -> PreTrainedModel:
        """A copy of the whole model in this process, with the newest weights. It blocks."""
        model = self._checkpoints.load_reference(self._config.model)[0]
        version = max(self.published)
        with naming_full_store(f"the weights of version {version}"):
            load_weights(model, ray.get(self.published[version].place))
        return model

    def parts(self) -> list[ActorPart]:
        """The actors."""
        return [ActorPart(rank_name(number), one) for number, one in enumerate(self.ranks)]

    def close(self) -> None:
        """End the actors."""
        for one in self.ranks:
            ray.kill(one)
        self.ranks = []

    async def _all(self, method: str, *args: Any) -> Any:
        """Let all actors call a method, and return what the first has."""

        async def call() -> Any:
            (result, self.step_count), *_ = await self._called(method, *args)
            return result

        return await self._with_recovery(call)

    async def _called(self, method: str, *args: Any) -> list[Any]:
        """What a method returns in each actor, with its number of batches trained on."""
        return await _answers([one.call.remote(method, *args) for one in self.ranks])

    async def _weights(self, version: int) -> Published:
        """The weights of the actors, which stay in the memory of the first one's machine until they are needed."""
        found = [one.weights.options(num_returns=3).remote(self._probe) for one in self.ranks]
        versions = await _answers([known for known, _, _ in found])
        assert set(versions) == {version}, f"weights of versions {versions} after step {version}"
        _, measured, place = found[0]
        return Published(place, await measured)

    async def _with_recovery(self, work: Callable[[], Awaitable[_T]]) -> _T:
        async with self._turn:
            return await repeated(work, self._restart)

    async def _restart(self, error: Exception) -> None:
        """Start the actors again."""
        await self._named(error)
        await self._begin_again()

    async def _named(self, error: Exception) -> None:
        """Log an end. Raises NotReady if groups were lost that were trained on since the checkpoint."""
        if isinstance(error, ObjectLostError):
            reason = "groups that were trained on since the latest checkpoint were lost with their machine"
            raise NotReady(f"the trainer cannot repeat its steps: {reason}. Resume the run with --resume.") from error
        log.warning("a process of the trainer has ended, and all start again: %s", error)
        self._waits.record("the trainer", "has ended, and begins again")

    async def _begin_again(self) -> None:
        """Start the actors, and repeat what came after the latest checkpoint: it may be one that was just written.

        The weights of these versions are published again: those that are published may be lost too.
        """
        wanted = self.step_count
        self.close()
        try:
            await self.start(self._placement)
        except NotReady as error:
            if isinstance(error.__cause__, RayActorError):  # Ray did not know yet that its machine has ended
                raise error.__cause__ from None
            raise
        self.num_recoveries += 1
        first = 0
        if self._checkpoints.has_any:
            (_, first), *_ = await self._called("restore")
        for version in range(first, wanted + 1):
            for number, method, args in self._since_checkpoint:
                if number == version > first:
                    await self._called(method, *args)
            if version in self.published:
                self.published[version] = await self._weights(version)


async def _answers(calls: Sequence[Any]) -> list[Any]:
    """What calls of several actors return. Where one of them has ended, that is the error, and not what others make of
    it, whose exchange with it fails."""
    answers = [asyncio.ensure_future(_answer(call)) for call in calls]
    try:
        return await asyncio.gather(*answers)
    except RayTaskError:
        known, _ = await asyncio.wait(answers, timeout=_END_IS_KNOWN_S)
        for error in (one.exception() for one in known):
            if isinstance(error, RayActorError):
                raise error from None
        raise


async def _answer(call: Any) -> Any:
    return await call
