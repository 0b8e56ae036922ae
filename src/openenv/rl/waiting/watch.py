"""Looks every few seconds at what a run waits for, reports it, and ends what is stuck."""

import asyncio
import contextlib
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from openenv.core.errors import OpenEnvError
from openenv.rl.waiting.stacks import Stacks
from openenv.rl.waiting.status import PartStatus, RunStatus
from openenv.rl.waiting.waits import Waits

log = logging.getLogger(__name__)

_EVERY_S = 2.0
PATIENCE_S = 30.0
"""A process that does nothing but work for the run answers within so many seconds."""
ASKED_WITHIN_S = 0.8 * PATIENCE_S
"""One that the watch has not reached for so long writes its stacks before it is ended."""
_END_LIMIT_S = 10.0
"""To end one: its machine may be gone."""
_ENDING_S = 600.0
"""A run that is stuck has so long to end by itself. Then its process ends."""


class Stuck(OpenEnvError):
    """Nothing that a run waits for arrives any more."""


class Part(Protocol):
    """A process of the run beside the driver."""

    name: str
    """Such as generator 0."""
    patience_s: float
    """Seconds without an answer after which it is ended."""

    async def status(self) -> PartStatus:
        """How it is. It answers at once if it can answer at all."""
        ...

    async def write_stacks(self, reason: str) -> None:
        """Let it write its stacks to the run's folder."""
        ...

    async def end(self, last: PartStatus) -> bool:
        """End its process at once: calls that wait for it fail, and what has made them recovers.

        last: its last status. Returns False for one that the run has not started, and does not end.
        """
        ...


class Driver(Protocol):
    """What the watch asks of the driver's process."""

    def parts(self) -> Sequence[Part]:
        """The processes of the run at this moment."""
        ...

    def position(self) -> tuple[int, Mapping[str, int], int]:
        """The step, the versions of the weights, by what has them, and how many steps wait for the trainer."""
        ...


class Watch:
    """Reports the status of a run while it runs.

    It ends processes that do not answer. Where no wait of the whole run has had an end for the limit, it writes the
    stacks of all processes, and raises Stuck.
    """

    def __init__(
        self,
        run_dir: Path,
        waits: Waits,
        driver: Driver,
        limit_s: float | None,
        on_status: Callable[[RunStatus], None] = lambda status: None,
    ) -> None:
        """
        Args:
            waits: of the driver.
            limit_s: None for none.
            on_status: receives each status.
        """
        self._run_dir = run_dir
        self._waits = waits
        self._driver = driver
        self._limit_s = limit_s
        self._on_status = on_status
        self._asked: dict[str, _Asked] = {}
        self._stacks = Stacks(run_dir, "driver")
        self._tokens, self._looked_at = Counter[str](), time.monotonic()
        self._ended, self._changed_at, self._woke_at = -1, self._looked_at, self._looked_at

    async def run(self) -> None:
        """Look until cancelled. Raises Stuck: `close` is then due, within ten minutes."""
        try:
            await self._watch()
        except Stuck:
            self._stacks.write_unless_called(_ENDING_S, end=True)
            raise
        finally:
            for asked in self._asked.values():
                asked.close()

    def close(self) -> None:
        """The run has ended: its process goes on, also after Stuck."""
        self._stacks.close()

    async def _watch(self) -> None:
        while True:
            if self._limit_s is not None:  # also if the event loop does not go on
                self._stacks.write_unless_called(self._limit_s)
            self._leave_out_pause()
            status = self._look()
            with contextlib.suppress(OSError):  # the next one may succeed; what the run cannot do without is written
                status.write(self._run_dir)  # elsewhere, and has its error there
            self._on_status(status)
            await self._end_silent()
            await self._end_if_stuck(status)
            await asyncio.sleep(_EVERY_S)

    def _leave_out_pause(self) -> None:
        """Time in which this process itself did nothing counts for no other: it was stopped, or its loop was busy."""
        now = time.monotonic()
        paused_s = max(0.0, now - self._woke_at - 2 * _EVERY_S)
        self._changed_at += paused_s
        for asked in self._asked.values():
            asked.leave_out(paused_s)
        self._woke_at = now

    def _look(self) -> RunStatus:
        """Ask all processes, and return what is known of them and of this one."""
        parts = {part.name: part for part in self._driver.parts()}
        for name in self._asked.keys() - parts.keys():
            self._asked.pop(name).close()
        for name, part in parts.items():
            self._asked.setdefault(name, _Asked(name, self._waits)).ask(part)
        known = [asked.status for asked in self._asked.values() if asked.status is not None]
        now = time.monotonic()
        tokens = sum((Counter(one.tokens) for one in known), Counter(self._waits.tokens))
        took_s, before = max(1e-9, now - self._looked_at), self._tokens
        self._tokens, self._looked_at = tokens, now
        ended = self._waits.num_ended + sum(one.num_ended for one in known) + tokens.total()
        if ended != self._ended:
            self._ended, self._changed_at = ended, now
        step, versions, steps_waiting = self._driver.position()
        return RunStatus(
            time_s=time.time(),
            pid=os.getpid(),
            step=step,
            versions=versions,
            steps_waiting=steps_waiting,
            waits=self._waits.now(),
            parts=known,
            tokens_per_s={name: max(0, number - before[name]) / took_s for name, number in tokens.items()},
            events=list(self._waits.events),
        )

    async def _end_silent(self) -> None:
        """End processes that do not answer."""
        silent = [asked for asked in self._asked.values() if asked.is_silent]
        if not silent:
            return
        await self._write_stacks(f"no answer from {', '.join(asked.name for asked in silent)}")
        for asked in silent:
            await asked.end()

    async def _end_if_stuck(self, status: RunStatus) -> None:
        if self._limit_s is None or time.monotonic() - self._changed_at < self._limit_s:
            return
        reason = f"nothing has arrived for {self._limit_s / 60:.0f} minutes"
        await self._write_stacks(reason)
        longest = "; ".join(map(str, status.all_waits[:3])) or "nothing is waited for"
        raise Stuck(f"{reason}: {longest}. {self._stacks.path.parent} has the stacks of all processes")

    async def _write_stacks(self, reason: str) -> None:
        self._stacks.write(reason)
        answering = [asked for asked in self._asked.values() if asked.silent_s <= 2 * _EVERY_S]
        writing = [asyncio.ensure_future(asked.write_stacks(reason)) for asked in answering]
        if writing:
            await asyncio.wait(writing, timeout=_EVERY_S)


class _Asked:
    """A process, and what it has answered."""

    def __init__(self, name: str, waits: Waits) -> None:
        self.name = name
        self.status: PartStatus | None = None
        """The last one."""
        self._waits = waits
        self._part: Part
        self._asking: asyncio.Future[PartStatus] | None = None
        self._answered_at: float | None = None
        """None: it has not answered since it has begun."""
        self._starts = 0

    @property
    def silent_s(self) -> float:
        """Seconds since it answered; 0 for one that begins."""
        return 0.0 if self._answered_at is None else time.monotonic() - self._answered_at

    def ask(self, part: Part) -> None:
        """Receive the last answer, if it is there, and ask again."""
        self._part = part
        if self._asking is not None and self._asking.done():
            self._receive(self._asking)
            self._asking = None
        if self._asking is None:
            self._asking = asyncio.ensure_future(part.status())
        if self.status is not None:
            answers = self._answered_at is not None
            self.status = replace(self.status, silent_s=self.silent_s, starts=self._starts, answers=answers)

    def leave_out(self, paused_s: float) -> None:
        """Seconds in which it was not listened to."""
        if self._answered_at is not None:
            self._answered_at += paused_s

    def _receive(self, answer: "asyncio.Future[PartStatus]") -> None:
        if answer.cancelled() or answer.exception() is not None:
            if self._answered_at is not None:
                self._waits.record(self.name, "has ended")
            self._answered_at = None
            return
        status = answer.result()
        if self.status is None or status.pid != self.status.pid:
            if self._answered_at is not None:  # between two questions
                self._waits.record(self.name, "has ended")
            self._starts += 1
            self._waits.record(self.name, "answers")
        self.status, self._answered_at = status, time.monotonic()

    @property
    def is_silent(self) -> bool:
        """Whether it has not answered for longer than it may."""
        return self.silent_s > self._part.patience_s

    async def end(self) -> None:
        """End the process, if it is the run's: what waits for it then fails."""
        assert self.status is not None, "one that has never answered is not silent"
        silent_s, self._answered_at = self.silent_s, None
        self.close()
        try:
            async with asyncio.timeout(_END_LIMIT_S):
                is_ended = await self._part.end(self.status)
            then = "it is ended, and begins again" if is_ended else "the run has not started it, and does not end it"
        except Exception as error:  # noqa: BLE001  border: its machine may be gone, or it has just ended by itself
            then = f"it could not be ended: {type(error).__name__}: {error}"
        log.warning("%s has not answered for %.0f s: %s", self.name, silent_s, then)
        self._waits.record(self.name, f"has not answered for {silent_s:.0f} s: {then}")

    async def write_stacks(self, reason: str) -> None:
        """Let the process write its stacks."""
        await self._part.write_stacks(reason)

    def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.add_done_callback(_retrieved)
            self._asking.cancel()
            self._asking = None


def _retrieved(answer: "asyncio.Future[PartStatus]") -> None:
    """A question whose answer is not needed any more may fail."""
    if not answer.cancelled():
        answer.exception()
