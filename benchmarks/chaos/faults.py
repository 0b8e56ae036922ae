"""The faults of a run: which process ends or hangs, and how long the run takes to notice and to go on."""

import itertools
import os
import random
import signal
import time
from dataclasses import dataclass

from benchmarks.chaos.run import Driver

KINDS = ("rollout worker", "generator", "trainer rank", "server", "driver")
_NOTICED_S = 90.0
_POLL_S = 0.02


@dataclass(frozen=True)
class Fault:
    """What happens to which kind of process."""

    kind: str
    hangs: bool
    """Whether it stops without an end, and answers nothing any more."""

    def __str__(self) -> str:
        return f"{self.kind} {'hangs' if self.hangs else 'is killed'}"


@dataclass(frozen=True)
class Outcome:
    """What the run made of it."""

    fault: Fault
    step: int
    noticed_s: float
    """Until the run has recorded it."""
    went_on_s: float
    """Until the next step was made."""


def plan(seed: int, each: int) -> list[Fault]:
    """Every kind killed so often, and each but the driver hung once, in an order drawn at random."""
    faults = [Fault(kind, hangs=False) for kind in KINDS for _ in range(each)]
    faults += [Fault(kind, hangs=True) for kind in KINDS if kind != "driver"]
    random.Random(seed).shuffle(faults)
    return faults


def cause(fault: Fault, driver: Driver, draw: random.Random, limit_s: float) -> Outcome:
    """Let it happen now, and wait until the run has made the next step."""
    step = driver.step
    victim, pid = _victim(fault, driver, draw)
    began, clock = time.monotonic(), time.time()
    os.kill(pid, signal.SIGSTOP if fault.hangs else signal.SIGKILL)
    if fault.kind == "driver":
        driver.process.wait(_NOTICED_S)
        noticed_s = time.monotonic() - began
        driver.resume()
    else:
        noticed_s = _noticed(fault, victim, driver, clock) - clock
    driver.wait_for_step(step + 1, limit_s)
    return Outcome(fault, step, noticed_s, time.monotonic() - began)


def _victim(fault: Fault, driver: Driver, draw: random.Random) -> tuple[str, int]:
    """The name of one process of the kind, and its process id."""
    if fault.kind == "driver":
        return "driver", driver.process.pid
    deadline = time.monotonic() + _NOTICED_S
    while time.monotonic() < deadline:
        status = driver.status
        found = [] if status is None else [part for part in status.parts if fault.kind in part.name]
        alive = [part for part in found if part.silent_s < 5 and os.path.exists(f"/proc/{part.pid}")]
        if alive:
            part = draw.choice(alive)
            return part.name, part.pid
        time.sleep(_POLL_S)
    raise TimeoutError(f"the status of the run names no {fault.kind}")


def _noticed(fault: Fault, victim: str, driver: Driver, since: float) -> float:
    """When the run has recorded that the process has ended, or does not answer, in seconds since 1970."""
    names = {victim, "the trainer"} if fault.kind == "trainer rank" else {victim}
    deadline = time.monotonic() + _NOTICED_S
    while time.monotonic() < deadline:
        status = driver.status
        for event in status.events if status else ():
            if event.part in names and event.time_s >= since and event.what != "answers":
                return event.time_s
        time.sleep(_POLL_S)
    raise TimeoutError(f"{fault}: not recorded within {_NOTICED_S:.0f} s")


def worst(outcomes: list[Outcome]) -> list[tuple[Fault, int, float, float]]:
    """Each fault, how often it was, and the longest times."""
    ordered = sorted(outcomes, key=lambda one: str(one.fault))
    return [
        (fault, len(found), max(one.noticed_s for one in found), max(one.went_on_s for one in found))
        for fault, group in itertools.groupby(ordered, key=lambda one: one.fault)
        if (found := list(group))
    ]
