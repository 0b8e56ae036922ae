"""The training loop: rollouts play the groups of the next steps while the trainer trains and publishes weights.

Step s trains weights of version s on its own groups. They were played by version s - max_policy_age exactly, so a run
does not depend on how fast rollouts and trainer are. At a checkpoint both begin anew: the first groups after it are
played by its weights, as in a run that is resumed there.

With partial rollouts the episodes of step s begin once version s - off_by_n is there, beside those of the steps before
that still run, and each reply has the newest weights.
"""

import asyncio
import contextlib
import gc
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from openenv.agents.llm.http import LLMError
from openenv.core.errors import OpenEnvError
from openenv.rl.algorithm.curricula import Curricula, environment_of
from openenv.rl.algorithm.learning_signal import NothingToLearn, SignalWatch, has_signal
from openenv.rl.algorithm.replay_buffer import ReplayBuffer, StepGroups
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.engines.protocol import MOST_ENDS, Engine, RolloutWorker
from openenv.rl.reports.results import environment_metrics, play_metrics
from openenv.rl.reports.training_log import TrainingLog
from openenv.rl.signals.collapse import Collapsed
from openenv.rl.waiting.status import RunStatus
from openenv.rl.waiting.watch import Part, Watch

log = logging.getLogger(__name__)

_MAX_FAILURES = 20  # groups of a step that were lost
_MOST_DRAWS = 4  # times the batch size, with `equal_groups: redraw`
_GOOD_INTERVAL = 5  # steps between the weights that are kept for a rollback


class NothingPlayed(OpenEnvError):
    """Every episode of many groups failed, for example because the server is gone."""


OnStep = Callable[[dict[str, Any]], None]
OnStatus = Callable[[RunStatus], None]
Evaluate = Callable[[int, bool], Awaitable[dict[str, Any]]]
"""Evaluates the current weights where it is due: receives the step, and whether it is the last. Returns metrics."""


class TrainingLoop:
    """Runs rollouts and training concurrently until the wanted number of steps is made. Used for one call of `run`."""

    def __init__(self, engine: Engine, training_log: TrainingLog) -> None:
        self._engine = engine
        self._log = training_log
        self._config, self._budget, self._trainer = engine.config, engine.budget, engine.trainer
        self._watch = SignalWatch(self._config)
        self._curricula = Curricula(self._config.env, engine.progress.levels)
        self._workers: Sequence[Sequence[RolloutWorker]] = []
        """Those of each environment."""
        self._waits = engine.waits
        self._buffer: ReplayBuffer
        self._pinned: int | None = None

    async def run(
        self,
        steps: int,
        on_step: OnStep | None = None,
        evaluate: Evaluate | None = None,
        on_status: OnStatus = lambda status: None,
    ) -> None:
        """Make `steps` more steps, or fewer if the time is up. A checkpoint is saved, also after a cancellation.

        evaluate: awaited after each step, before its metrics are recorded. A cancellation leaves out what it returns.
        on_status: receives every few seconds what the run waits for.
        Raises NothingToLearn if no group of many steps had episodes with different rewards, and Stuck if nothing that
        is waited for arrives for `watchdog_minutes`.
        """
        first, last = self._engine.progress.step, self._engine.progress.step + steps
        buffer = self._buffer = ReplayBuffer(self._config.max_policy_age, first, self._config.replay_buffer.age_of)
        play = self._play_steps_at_once if self._config.sampling.partial_rollouts else self._play_steps
        watch = Watch(self._log.run_dir, self._waits, self, self._config.watchdog_s, on_status)
        with self._budget.counting(), _loaded_objects_frozen(), contextlib.closing(watch):
            async with self._engine.workers() as self._workers:
                try:
                    async with asyncio.TaskGroup() as group:
                        watching = group.create_task(watch.run())
                        playing = group.create_task(play(buffer, first, last))
                        await self._train(buffer, last, on_step, evaluate)
                        playing.cancel()
                        watching.cancel()
                except ExceptionGroup as failures:
                    raise failures.exceptions[0] from None  # the first caused the others
                finally:
                    await _uninterrupted(self._trainer.save(self._engine.progress))

    async def _play_steps(self, buffer: ReplayBuffer, first: int, last: int) -> None:
        """Play the groups of the steps from `first` to before `last`, each with its version of the weights."""
        interval = self._config.checkpoint.interval
        for step in range(first, last):
            checkpoint = max(first, step - step % interval) if interval else first
            version = max(checkpoint, step - self._config.max_policy_age)
            with self._waits.of("the rollouts", f"version {version} of the weights"):
                await buffer.wait_for_version(version)
            self._engine.pin(version)
            self._pinned = version
            await buffer.put(step, await self._groups_of(step))

    async def _play_steps_at_once(self, buffer: ReplayBuffer, first: int, last: int) -> None:
        """The same with the newest weights. A step begins while episodes of those before run. Free sessions go to the
        episodes that have waited longest."""

        async def play(step: int) -> None:
            await buffer.put(step, await self._groups_of(step))

        try:
            async with asyncio.TaskGroup() as tasks:
                for step in range(first, last):
                    wanted = max(first, step - self._config.off_by_n)
                    with self._waits.of("the rollouts", f"version {wanted} of the weights"):
                        await buffer.wait_for_version(wanted)
                    tasks.create_task(play(step))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _groups_of(self, step: int) -> StepGroups:
        """Play a step's groups, whose numbers follow from the step: one batch, or more if equal ones are redrawn."""
        redraws = self._config.replay_buffer.equal_groups == "redraw"
        most = self._engine.batch_size * (_MOST_DRAWS if redraws else 1)
        played: list[Group] = []
        trained: list[Group] = []
        wanted = self._engine.batch_size
        while wanted > 0:
            start = step * most + len(played)
            groups = await self._play(range(start, start + wanted))
            played += groups
            trained += [group for group in groups if self._is_useful(group)]
            missing = self._engine.batch_size - len(trained) if redraws else 0
            expected = missing * len(played) / max(1, len(trained))  # at the rate of useful groups so far
            wanted = min(math.ceil(expected), most - len(played))
        self._curricula.add(played)
        return StepGroups(played, trained[: self._engine.batch_size], self._curricula.state)

    async def _play(self, indices: Sequence[int]) -> list[Group]:
        """Play groups, divided among the rollouts. In the order of numbers.

        While more than half of them lost so many episodes that they cannot be trained on, those are played again: a
        step is not made with the few that are left. All are played again, with their seeds, where the generator or a
        server of the environment had ended and was started again: the step is then the same as without that end.
        Raises NothingPlayed after many failures, and what ended the generator for the third time.
        """
        played: dict[int, Group] = {}
        lost, num_failures, num_ends = list(indices), 0, 0
        while True:
            known = self._engine.num_recoveries
            try:
                groups = await self._play_once(lost)
            except LLMError as error:
                num_ends += 1
                if num_ends == MOST_ENDS or not await self._engine.recovered(known):
                    raise
                log.warning("the generator had ended, and runs again: %d groups are played again (%s)",
                            len(lost), error)  # fmt: skip
                continue
            failed = [group for group in groups if any(t.has_lost_server for t in group.trajectories)]
            if not (failed and self._engine.num_server_ends):
                played |= {group.index: group for group in groups}
                lost = [index for index in indices if _is_lost(played[index])]
                if len(lost) <= len(indices) / 2:
                    return [played[index] for index in sorted(indices)]
                failed = [played[lost[0]]]
            num_failures += len(lost)
            reason = _reason(failed[0])
            if num_failures >= max(_MAX_FAILURES, 3 * len(indices)):
                raise NothingPlayed(f"{len(lost)} of {len(indices)} groups of a step could not be played: {reason}")
            log.warning("%d of %d groups of a step are played again: %s", len(lost), len(indices), reason)

    async def _play_once(self, indices: Sequence[int]) -> list[Group]:
        try:
            async with asyncio.TaskGroup() as tasks:
                playing = [
                    tasks.create_task(worker.play(part, self._curricula.keywords(number)))
                    for number, workers in enumerate(self._workers)
                    for worker, part in zip(workers, self._parts(indices, number, len(workers)), strict=True)
                    if part
                ]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return sorted((group for task in playing for group in task.result()), key=lambda group: group.index)

    def _parts(self, indices: Sequence[int], environment: int, number: int) -> list[list[int]]:
        """The groups that an environment plays, in as many parts of nearly one length."""
        own = [index for index in indices if environment_of(index, self._config.env) == environment]
        share = -(-len(own) // number)
        return [own[part * share : (part + 1) * share] for part in range(number)]

    def _is_useful(self, group: Group) -> bool:
        """Whether the group is trained on: it has two valid episodes, decisions, and a signal if it needs one."""
        if _is_lost(group):
            log.warning("dropped group %d: %s", group.index, _reason(group))
            return False
        if not any(t.segments for t in group.valid):
            return False  # over before the first decision
        return self._config.replay_buffer.equal_groups == "keep" or has_signal(group)

    async def _train(self, buffer: ReplayBuffer, last: int, on_step: OnStep | None, evaluate: Evaluate | None) -> None:
        while self._engine.progress.step < last and not self._is_time_up():
            began = time.monotonic()
            try:
                step = self._engine.progress.step
                with self._waits.of("the trainer", f"the groups of step {step}"):
                    async with asyncio.timeout(self._budget.left_s):
                        groups = await buffer.get(step)
            except TimeoutError:
                continue
            row = await self._recorded_step(groups, last, began, buffer.num_evicted, evaluate)
            if on_step is not None:
                on_step(row)
            await self._act_on_collapse()
            if self._watch.has_given_up:
                self._end_without_signal(row)
                return
            await self._checkpoint_when_due()
            await buffer.advance(self._trainer.step_count)

    def _is_time_up(self) -> bool:
        if self._budget.is_spent():
            log.warning("max_minutes is spent: training ends at step %d", self._engine.progress.step)
        return self._budget.is_spent()

    async def _recorded_step(
        self, groups: StepGroups, last: int, began: float, num_evicted: int, evaluate: Evaluate | None
    ) -> dict[str, Any]:
        """Make a step, and evaluate where it is due. The step is recorded also if it or its evaluation is cancelled."""
        step = asyncio.ensure_future(self._step(groups, last, began, num_evicted))
        evaluated: dict[str, Any] = {}
        try:
            await _uninterrupted(step)
            if evaluate is not None:
                made = self._engine.progress.step
                with self._waits.of(f"step {made}", "its evaluation"):
                    evaluated = await evaluate(made, made == last)
        finally:
            if step.exception() is None:
                row = self._log.add({**step.result(), **evaluated}, groups, self._engine.chat)
        return row

    async def _step(self, groups: StepGroups, last: int, began: float, num_evicted: int) -> dict[str, Any]:
        """Train on the groups and publish the weights. Returns the metrics."""
        waited_s = time.monotonic() - began
        step = self._engine.progress.step
        part_done = self._part_done(step / max(self._config.trainer.training.steps, last))
        played = play_metrics(groups.played, groups.trained, step)
        played |= environment_metrics(groups.played, groups.levels, self._config.env)
        age, by_token = played["off_policy/max_age"], self._config.oldest_is_left_out
        assert by_token or age <= self._config.max_policy_age, f"step {step} would train on groups of age {age}"
        with self._waits.of(f"step {step}", "the trainer"):
            trained = await self._trainer.step(groups.trained, part_done)
        is_collapsed = self._config.on_collapse == "rollback" and self._log.collapse.sign is not None
        rolled_back = is_collapsed and await self._trainer.restore_good()
        if rolled_back:
            log.warning("step %d: back to the last good weights, with half the step", self._trainer.step_count)
        with self._waits.of(f"step {step}", "the weights that the trainer publishes"):
            await self._trainer.publish()
        took_s = time.monotonic() - began
        self._engine.progress = replace(
            self._engine.progress,
            step=self._trainer.step_count,
            training_s=self._engine.progress.training_s + took_s,
            spent_s=self._budget.spent_s,
            levels=groups.levels,
            last_signal=step + 1 if any(map(has_signal, groups.played)) else self._engine.progress.last_signal,
        )
        row = {"step": self._engine.progress.step, **played, **trained}
        row |= {"wait_time": waited_s, "step_time": took_s, "buffer/evicted": num_evicted}
        row["training_s"] = self._engine.progress.training_s
        if rolled_back:
            row["rolled_back"] = True
        self._watch.add(groups.played)
        if self._watch.is_due:
            row["warning"] = self._watch.reason
        return row

    def _part_done(self, part_of_steps: float) -> float:
        """The fraction of training that is done, 0 to 1: of its steps, or of its time where that ends first."""
        left_s, spent_s = self._budget.left_s, self._engine.progress.training_s
        part_of_time = 0.0 if left_s is None else spent_s / max(1e-9, spent_s + left_s)
        return min(1.0, max(part_of_steps, part_of_time))

    async def _act_on_collapse(self) -> None:
        """Keep good weights where a collapse is to end there. Raises Collapsed if it is to stop the run."""
        collapse, action = self._log.collapse, self._config.on_collapse
        if action == "stop" and collapse.sign is not None:
            raise Collapsed(f"step {self._engine.progress.step}: {collapse.remedy}")
        if action == "rollback" and collapse.is_clear and self._engine.progress.step % _GOOD_INTERVAL == 1:
            await _uninterrupted(self._trainer.save_good())

    def _end_without_signal(self, row: dict[str, Any]) -> None:
        """Say that training ends early. Raises NothingToLearn if no step of the run had a signal."""
        if not self._engine.progress.last_signal:
            raise NothingToLearn(row["warning"])
        log.warning("training ends early: the last step with a signal was %d", self._engine.progress.last_signal)

    async def _checkpoint_when_due(self) -> None:
        interval = self._config.checkpoint.interval
        if interval and self._engine.progress.step % interval == 0:
            with self._waits.of(f"step {self._engine.progress.step}", "its checkpoint"):
                await _uninterrupted(self._trainer.save(self._engine.progress))

    def parts(self) -> Sequence[Part]:
        """As `waiting.watch.Driver.parts`."""
        return self._engine.parts()

    def position(self) -> tuple[int, Mapping[str, int], int]:
        """As `waiting.watch.Driver.position`."""
        versions = {"the trainer": self._trainer.step_count}
        if self._pinned is not None:
            versions["the rollouts"] = self._pinned
        return self._engine.progress.step, versions, len(self._buffer)


def _is_lost(group: Group) -> bool:
    """Whether the environment failed in so many of its episodes that the others cannot be compared."""
    return len(group.valid) < 2


def _reason(group: Group) -> str:
    """Why the environment failed in its episodes."""
    return "; ".join(sorted({t.reason for t in group.trajectories if not t.valid}))


@contextlib.contextmanager
def _loaded_objects_frozen() -> Iterator[None]:
    """The garbage collector does not visit what the program has loaded: torch and transformers alone are half a million
    objects, and each step makes enough new ones for several full collections."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def _uninterrupted(work: Any) -> Any:
    """The result of `work`, which finishes even if the caller is cancelled: a thread cannot be interrupted."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
