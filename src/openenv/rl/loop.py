"""The training loop: rollouts fill the replay buffer while the trainer takes batches and publishes weights."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from openenv.core.errors import OpenEnvError
from openenv.rl.config import Config
from openenv.rl.models.chat import Chat
from openenv.rl.models.language_model import WeightStore
from openenv.rl.reports.results import MetricsLog, play_metrics
from openenv.rl.rollouts.replay_buffer import ReplayBuffer
from openenv.rl.rollouts.rollout import Rollout
from openenv.rl.rollouts.trajectory import Group
from openenv.rl.training.checkpoint import Checkpoints, TrainingProgress
from openenv.rl.training.trainer import Trainer

log = logging.getLogger(__name__)

_MAX_FAILURES = 20  # consecutive groups without a valid episode


class NothingPlayed(OpenEnvError):
    """Every episode of many groups failed, for example because the server is gone."""


OnStep = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class _Clock:
    """The elapsed part of the training."""

    config: Config
    earlier_s: float
    started: float
    last_step: int

    @property
    def training_s(self) -> float:
        return self.earlier_s + time.monotonic() - self.started

    def part_done(self, step: int) -> float:
        """The fraction that is done, 0 to 1: by steps or by time, whichever is larger."""
        training = self.config.trainer.training
        return min(
            1.0, max(step / max(training.steps, self.last_step), self.training_s / (60.0 * training.max_minutes))
        )

    @property
    def left_s(self) -> float:
        return 60.0 * self.config.trainer.training.max_minutes - self.training_s

    def is_over(self, step: int) -> bool:
        return step >= self.last_step or self.training_s >= 60.0 * self.config.trainer.training.max_minutes


class TrainingLoop:
    """Runs rollouts and training concurrently until the wanted number of steps is made. Used for one call of `run`."""

    def __init__(
        self,
        rollouts: Sequence[Rollout],
        trainer: Trainer,
        store: WeightStore,
        checkpoints: Checkpoints,
        chat: Chat,
        config: Config,
        metrics: MetricsLog,
        progress: TrainingProgress,
        batch_size: int,
    ) -> None:
        self.progress = progress
        self._batch_size = batch_size
        self._thread = ThreadPoolExecutor(1, "trainer", torch.set_num_threads, (config.threads,))
        self._rollouts = rollouts
        self._trainer = trainer
        self._store = store
        self._checkpoints = checkpoints
        self._chat = chat
        self._config = config
        self._metrics = metrics
        self._num_invalid = 0
        """Invalid episodes since the last step, including those of dropped groups."""

    async def run(self, steps: int, on_step: OnStep | None = None) -> None:
        """Make `steps` more steps, or fewer if the time is up. A checkpoint is saved, also after a cancellation."""
        clock = _Clock(self._config, self.progress.training_s, time.monotonic(), self.progress.step + steps)
        buffer = ReplayBuffer(self._batch_size, self._config.max_policy_age)
        numbers = itertools.count(self.progress.next_group)
        if self._store.version < self.progress.step:
            self._store.publish(self._trainer.model, self.progress.step)
        try:
            async with asyncio.TaskGroup() as group:
                workers = [group.create_task(self._play(rollout, buffer, numbers)) for rollout in self._rollouts]
                await self._train(buffer, clock, on_step)
                for worker in workers:
                    worker.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None  # the first caused the others
        finally:
            self._thread.shutdown()
            self._checkpoints.save(self._trainer, self._chat, self.progress)

    async def _play(self, rollout: Rollout, buffer: ReplayBuffer, numbers: Iterator[int]) -> None:
        """Play groups until cancelled, as many at a time as the buffer has room for."""
        failed_in_a_row = 0
        while True:
            reserved = await buffer.reserve(self._config.groups_in_flight)
            groups = await rollout.play([next(numbers) for _ in range(reserved)])
            self._num_invalid += sum(not t.valid for group in groups for t in group.trajectories)
            failed_in_a_row = 0 if any(group.valid for group in groups) else failed_in_a_row + len(groups)
            if failed_in_a_row >= _MAX_FAILURES:
                reason = groups[0].trajectories[0].reason
                raise NothingPlayed(f"none of {failed_in_a_row} groups could be played: {reason}")
            await buffer.put([group for group in groups if self._is_useful(group)], reserved=reserved)

    def _is_useful(self, group: Group) -> bool:
        """Whether the group can be trained on: it has two valid episodes, and decisions in them."""
        if len(group.valid) < 2:
            reasons = {t.reason for t in group.trajectories if not t.valid}
            log.warning("dropped group %d: %s", group.index, "; ".join(sorted(reasons)))
            return False
        if not any(t.segments for t in group.valid):
            return False  # over before the first decision
        return not (self._config.replay_buffer.drop_equal_groups and group.all_equal)

    async def _train(self, buffer: ReplayBuffer, clock: _Clock, on_step: OnStep | None) -> None:
        while not clock.is_over(self.progress.step):
            began = time.monotonic()
            try:
                async with asyncio.timeout(clock.left_s):
                    groups = await buffer.get()
            except TimeoutError:
                log.warning("the time is up while waiting for groups to train on: step=%d", self.progress.step)
                return
            row = await _uninterrupted(self._step(groups, clock, began, buffer.num_evicted))
            if on_step is not None:
                on_step(row)
            await self._checkpoint_when_due()
            await buffer.advance(self._trainer.step_count)

    async def _step(self, groups: list[Group], clock: _Clock, began: float, num_evicted: int) -> dict[str, Any]:
        """Train on the groups, publish the weights, and write the metrics."""
        waited_s = time.monotonic() - began
        part_done = clock.part_done(self.progress.step)
        played = play_metrics(groups, groups, self._trainer.step_count)
        # always the same thread: the matrix library keeps buffers for each thread that calls it
        trained = await asyncio.get_running_loop().run_in_executor(self._thread, self._trainer.step, groups, part_done)
        self._store.publish(self._trainer.model, self._trainer.step_count)
        last = max(group.index for group in groups)
        self.progress = TrainingProgress(
            step=self._trainer.step_count, next_group=last + 1, training_s=clock.training_s
        )
        row = {"step": self.progress.step, **played, **trained, "episodes/invalid": self._num_invalid}
        row |= {"wait_time": waited_s, "step_time": time.monotonic() - began, "buffer/evicted": num_evicted}
        row["training_s"] = self.progress.training_s
        self._num_invalid = 0
        self._metrics.append(row)
        return row

    async def _checkpoint_when_due(self) -> None:
        interval = self._config.checkpoint.interval
        if interval and self.progress.step % interval == 0:
            await _uninterrupted(asyncio.to_thread(self._checkpoints.save, self._trainer, self._chat, self.progress))


async def _uninterrupted(work: Any) -> Any:
    """The result of `work`, which finishes even if the caller is cancelled: a thread cannot be interrupted."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
