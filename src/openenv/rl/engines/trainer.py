"""The trainer of a run in this process, for the training loop: its work is done in a thread."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import torch
from transformers import PreTrainedModel

from openenv.rl.algorithm.trajectory import Group
from openenv.rl.models.chat import Chat
from openenv.rl.models.language_model import WeightStore
from openenv.rl.progress import TrainingProgress
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.training.trainer import Trainer

_T = TypeVar("_T")


class EmbeddedTrainer:
    """As `engines.protocol.Trainer`. The event loop stays free while it works.

    It is always the same thread: the matrix library keeps buffers for each thread that calls it.
    """

    def __init__(self, trainer: Trainer, store: WeightStore, checkpoints: Checkpoints, chat: Chat) -> None:
        """store: passes the weights to generators. chat: is saved with them."""
        self._trainer = trainer
        self._store = store
        self._checkpoints = checkpoints
        self._chat = chat
        self._thread = ThreadPoolExecutor(1, "trainer", torch.set_num_threads, (trainer.config.threads,))

    @property
    def model(self) -> PreTrainedModel:
        """It has the trained weights."""
        return self._trainer.model

    @property
    def step_count(self) -> int:
        """Number of batches trained on, which is the policy version of the weights."""
        return self._trainer.step_count

    async def step(self, groups: Sequence[Group], progress: float) -> dict[str, float]:
        """As `training.trainer.Trainer.step`."""
        return await self._in_thread(partial(self._trainer.step, groups, progress))

    async def publish(self) -> None:
        """Let generators load the weights of this version."""
        await self._in_thread(partial(self._store.publish, self._trainer.model, self._trainer.step_count))

    async def save(self, progress: TrainingProgress) -> None:
        """Save a checkpoint, and forget the scores of the reference: a resumed run has none either."""
        await self._in_thread(partial(self._save, progress))

    async def restore(self) -> TrainingProgress:
        """Restore the latest checkpoint, and return how far the run was."""
        return await self._in_thread(partial(self._checkpoints.restore, self._trainer))

    async def save_good(self) -> None:
        """Keep the current weights for `restore_good`."""
        await self._in_thread(partial(self._checkpoints.save_good, self._trainer, self._chat))

    async def restore_good(self) -> bool:
        """Go back to the last good weights, with half the step. False if there are none."""
        return await self._in_thread(self._restore_good)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _save(self, progress: TrainingProgress) -> None:
        self._checkpoints.save(self._trainer, self._chat, progress)
        if self._trainer.reference is not None:
            self._trainer.reference.clear()

    def _restore_good(self) -> bool:
        has_good = self._checkpoints.restore_good(self._trainer)
        if has_good:
            self._trainer.halve_step()
        return has_good
