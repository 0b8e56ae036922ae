"""Are sessions that play at the same time isolated from one another, and how long does a step take?"""

import asyncio
import contextlib
import itertools
from contextlib import AsyncExitStack
from statistics import median

from openenv.evaluation.quality.checks.determinism import STEPS, recorded
from openenv.evaluation.quality.probe.raw_client import RawClient, ServerFull
from openenv.evaluation.quality.probe.recordings import Recording, begin, difference, play, play_all, replay, take
from openenv.evaluation.quality.target import CheckResult, Target, failed, passed, skipped, warned

_OTHERS = 8
_REMEDY = "keep the state of an episode in the instance: no class attributes, module globals or shared files"


async def isolation(target: Target) -> CheckResult:
    """Two interleaved sessions, and one beside eight others, play the same episodes as alone."""
    one, other, *_ = await recorded(target)
    try:
        async with target.client() as left, target.client() as right:
            change = await _interleaved(target, (left, one), (right, other))
    except ServerFull as error:
        return skipped(f"the server holds one session: {error}")
    if change:
        return failed(f"two interleaved sessions: {change}", _REMEDY)
    num_others, change = await _beside_others(target, one)
    if change:
        return failed(f"beside {num_others} other sessions: {change}", _REMEDY)
    return passed(f"two interleaved sessions, and one beside {num_others} others, play as they do alone")


async def _interleaved(target: Target, *pairs: tuple[RawClient, Recording]) -> str | None:
    again = [await begin(client, target.seed + number) for number, (client, _) in enumerate(pairs)]
    for step in range(max(len(alone.actions) for _, alone in pairs)):
        for (client, alone), now in zip(pairs, again, strict=True):
            if step < len(alone.actions):
                await take(client, now, alone.actions[step])
    differences = (difference(alone.frames, now.frames) for (_, alone), now in zip(pairs, again, strict=True))
    return next((found for found in differences if found), None)


async def _beside_others(target: Target, alone: Recording) -> tuple[int, str | None]:
    """The number of other sessions, and the difference to the episode played alone."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(target.client())
        others = []
        with contextlib.suppress(ServerFull):  # as many as the server accepts
            for number in range(_OTHERS):
                others.append((number, await stack.enter_async_context(target.client())))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_play_until_cancelled(target, other, number)) for number, other in others]
            again = await replay(client, target.seed, alone.actions)
            for task in tasks:
                task.cancel()
    return len(others), difference(alone.frames, again.frames)


async def _play_until_cancelled(target: Target, client: RawClient, number: int) -> None:
    """Play random episodes until cancelled."""
    seeds = itertools.count(1000 * (number + 1))
    await play_all(client, seeds, target.random_policy(f"others {number}"), STEPS)


_SESSIONS = 8
_SESSION_STEPS = 30
_TIMED_STEPS = 500
_TIMED_EPISODE_STEPS = 50
_TIME_LIMIT_S = 2.0
_SLOW_S = 1.0


async def concurrency(target: Target) -> CheckResult:
    """Eight sessions finish side by side, or the server refuses some of them because it is full."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_finishes(target, number)) for number in range(_SESSIONS)]
    finished = sum(task.result() for task in tasks)
    if finished == _SESSIONS:
        return passed(f"{_SESSIONS} sessions at the same time, all finished")
    if finished == 0:
        return failed(f"none of {_SESSIONS} sessions at the same time could be opened", "hold at least one session")
    return warned(f"{finished} of {_SESSIONS} sessions finished, the others were refused because the server is full",
                  "set SUPPORTS_CONCURRENT_SESSIONS or max_sessions: training plays many at a time")  # fmt: skip


async def _finishes(target: Target, number: int) -> bool:
    """Play in a session of its own. Returns False if the server is full."""
    try:
        async with target.client(retry_when_full=False) as client:
            await play(client, target.seed + number, target.random_policy(f"concurrency {number}"), _SESSION_STEPS)
    except ServerFull:
        return False
    return True


async def step_time(target: Target) -> CheckResult:
    """Median and 99th percentile of the time of a step, including the network, without other sessions."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _TIME_LIMIT_S
    took_s: list[float] = []
    seed = target.seed
    async with target.client() as client:
        while not took_s or (len(took_s) < _TIMED_STEPS and loop.time() < deadline):
            took_s += (await play(client, seed, target.random_policy(f"time {seed}"), _TIMED_EPISODE_STEPS)).step_s
            seed += 1
    took_s.sort()
    p99_s = took_s[int(0.99 * (len(took_s) - 1))]
    seen = f"median {1e3 * median(took_s):.2f} ms, 99 % below {1e3 * p99_s:.2f} ms ({len(took_s)} steps)"
    if median(took_s) > _SLOW_S:
        return warned(seen, "training takes thousands of steps: a step should take well under a second")
    return passed(seen)
