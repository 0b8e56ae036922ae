"""The trainer of a run in this process, for the training loop: its work is done in a thread."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import torch
from transformers import PreTrainedModel

from openenv.rl.algorithm.trajectory import Group
from openenv.rl.engines.followers import Followers
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.progress import TrainingProgress
from openenv.rl.reports.best_checkpoint import BestCheckpoint
from openenv.rl.training.trainer_rank import TrainerRank

_T = TypeVar("_T")


class EmbeddedTrainer:
    """As `engines.protocol.Trainer`. The event loop stays free while it works.

    It is always the same thread: the matrix library keeps buffers for each thread that calls it. Processes that
    `torchrun` has started beside this one hold parts of the model, and do the same work at the same time.
    """

    def __init__(self, rank: TrainerRank, store: WeightStore, followers: Followers | None = None) -> None:
        """store: passes the weights to generators. followers: the other processes; None: there are none."""
        self._rank = rank
        self._store = store
        self._followers = followers or Followers()
        threads = rank.trainer.config.threads
        self._thread = ThreadPoolExecutor(1, "trainer", torch.set_num_threads, (threads,))

    @property
    def model(self) -> PreTrainedModel:
        """The trained model, or this process's part of it: ask it for its architecture alone."""
        return self._rank.trainer.model

    @property
    def step_count(self) -> int:
        """Number of batches trained on, which is the policy version of the weights."""
        return self._rank.trainer.step_count

    async def step(self, groups: Sequence[Group], progress: float) -> dict[str, float]:
        """As `training.trainer.Trainer.step`."""
        return await self._in_thread(partial(self._all, TrainerRank.step, groups, progress))

    async def publish(self) -> None:
        """Let generators load the weights of this version."""
        await self._in_thread(partial(self._publish, self._store))

    async def save(self, progress: TrainingProgress) -> None:
        """Save a checkpoint, and forget the scores of the reference: a resumed run has none either."""
        await self._in_thread(partial(self._all, TrainerRank.save, progress))

    async def restore(self) -> TrainingProgress:
        """Restore the latest checkpoint, and return how far the run was."""
        return await self._in_thread(partial(self._all, TrainerRank.restore))

    async def save_good(self) -> None:
        """Keep the current weights for `restore_good`."""
        await self._in_thread(partial(self._all, TrainerRank.save_good))

    async def restore_good(self) -> bool:
        """Go back to the last good weights, with half the step. False if there are none."""
        return await self._in_thread(partial(self._all, TrainerRank.restore_good))

    def publish_to(self, store: WeightStore) -> None:
        """Publish the weights of this version to another store too."""
        self._thread.submit(self._publish, store).result()

    def save_best(self, best: BestCheckpoint) -> None:
        """Save the current weights as the run's best checkpoint."""
        self._thread.submit(self._all, TrainerRank.save_best, best).result()

    def copy(self) -> PreTrainedModel:
        """A copy of the whole model with the current weights."""
        return self._thread.submit(self._all, TrainerRank.copy).result()

    def close(self) -> None:
        """End the thread, and let the other processes end."""
        self._thread.shutdown()
        self._followers.end()

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _publish(self, store: WeightStore) -> None:
        self._followers.call(TrainerRank.follow_publish, store.probe)
        self._rank.publish(store)

    def _all(self, method: Callable[..., _T], *args: object) -> _T:
        """Let all processes do the same, and return what this one has."""
        self._followers.call(method, *args)
        return method(self._rank, *args)
