"""Does an episode end, and do its rewards measure how well an agent plays?"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from openenv.evaluation.intervals import Interval, mean_and_interval
from openenv.evaluation.quality.probe.recordings import Recording, play, take
from openenv.evaluation.quality.target import RAISES_REMEDY, CheckResult, Target, failed, passed, warned
from openenv.policies.base import ActsOnObservations

MAX_STEPS = 1000
"""Random steps within which an episode should end."""
_ENDING_LIMIT_S = 4.0


async def ending(target: Target) -> CheckResult:
    """A random episode ends within 1,000 steps or four seconds.

    A step after its end is refused, unless the environment declares that it is allowed.
    """
    async with target.client(extended=True) as client:
        deadline = asyncio.get_running_loop().time() + _ENDING_LIMIT_S
        recording = await play(client, target.seed, target.random_policy("ending"), MAX_STEPS, deadline=deadline)
        if not recording.last.done:
            return warned(f"no end in {len(recording.actions)} random steps: an endless episode",
                          "return done=True when the task is over, or limit the steps")  # fmt: skip
        length = f"an episode of random play ends after {len(recording.actions)} steps"
        state = await client.request("state")
        if state.is_error:
            return failed(f"{length}; `state` after it: {state.message}", RAISES_REMEDY)
        frame = await take(client, recording, recording.actions[-1])
        if frame.is_error and frame.code == "EPISODE_OVER":
            return passed(f"{length}; a step after the end is refused")
        if frame.is_error and frame.code == "VALIDATION_ERROR":
            return failed(f"{length}; a step after it returns {frame.message}", "refuse it as EPISODE_OVER")
        if frame.is_error:
            return passed(f"{length}; a step after the end is refused as {frame.code}")
        if client.is_extended:  # our server refuses it unless the author allows it
            return passed(f"{length}; steps after the end are allowed by declaration")
        return warned(f"{length}; a step after the end is accepted",
                      "refuse it: an agent that misses the end learns from meaningless steps")  # fmt: skip


_EPISODES = 100
_STEPS = 30
_TIME_LIMIT_S = 3.0
_MIN_EPISODES = 5


@dataclass(frozen=True, slots=True)
class _Scores:
    """Total rewards of one policy's episodes."""

    totals: list[float]
    mean: float
    interval: Interval

    def __str__(self) -> str:
        half = self.interval[1] - self.mean
        return f"{self.mean:+.3f} ± {half:.3f} ({len(self.totals)} episodes)"


async def rewards(target: Target) -> CheckResult:
    """Rewards are numbers, they differ, and doing the same thing every time does not earn the most."""
    idle = await _episodes(target, target.first_action_policy())
    random = await _episodes(target, target.random_policy("rewards"))
    steps = [reward for episode in (*idle, *random) for reward in episode.rewards]
    wrong = [reward for reward in steps if reward is not None and not _is_number(reward)]
    if wrong:
        return failed(f"a reward of {wrong[0]!r}", "return a finite number, or None where there is no reward")
    if not any(reward is not None for reward in steps):
        return warned(f"no reward in {len(steps)} steps", "set the observation's reward: nothing can be learnt here")
    if any(reward is None for episode in (*idle, *random) for reward in episode.rewards[-1:] if episode.last.done):
        return warned(
            "an episode ends with the reward null", "a NaN or an infinity is sent as null: look at the reward"
        )
    if len(set(steps)) == 1:
        return warned(f"every reward is {steps[0]}", "let the reward distinguish better play from worse")
    return _compared(_scores(idle), _scores(random))


def _compared(idle: _Scores, random: _Scores) -> CheckResult:
    """idle: of the policy that takes the first action every time."""
    seen = f"mean of the first action every time {idle}, of random play {random}"
    remedy = "look at the reward: it should not pay to do nothing"
    totals = (*idle.totals, *random.totals)
    if max(totals) > min(totals) and idle.mean >= max(totals):
        return warned(f"a policy that does nothing scores {idle.mean:+.3f}, the most that was seen; {seen}", remedy)
    if idle.interval[0] > random.interval[1]:
        return warned(f"a policy that does nothing scores {idle.mean:+.3f}, above random play; {seen}", remedy)
    return passed(seen)


async def _episodes(target: Target, policy: ActsOnObservations) -> list[Recording]:
    """A hundred episodes, or as many as three seconds allow, at least five."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _TIME_LIMIT_S
    played: list[Recording] = []
    async with target.client() as client:
        while len(played) < _EPISODES and (loop.time() < deadline or len(played) < _MIN_EPISODES):
            played.append(await play(client, target.seed + len(played), policy, _STEPS))
    return played


def _scores(episodes: Sequence[Recording]) -> _Scores:
    totals = [math.fsum(reward or 0.0 for reward in episode.rewards) for episode in episodes]
    mean, interval = mean_and_interval(totals)
    return _Scores(totals, mean, interval)


def _is_number(reward: object) -> bool:
    return isinstance(reward, int | float) and math.isfinite(reward)
