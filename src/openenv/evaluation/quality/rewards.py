"""Do rewards say anything about how well an agent does?"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from openenv.evaluation.quality.episodes import Played, play
from openenv.evaluation.quality.findings import Finding, failed, passed, warned
from openenv.evaluation.quality.players import Player
from openenv.evaluation.quality.subject import Subject
from openenv.evaluation.summary import Interval, mean_and_interval

_EPISODES = 100
_STEPS = 30
_MOST_S = 3.0
_FEWEST = 5


@dataclass(frozen=True, slots=True)
class _Scores:
    """Total rewards of one player's episodes."""

    totals: list[float]
    mean: float
    interval: Interval

    def __str__(self) -> str:
        half = self.interval[1] - self.mean
        return f"{self.mean:+.3f} ± {half:.3f} ({len(self.totals)} episodes)"


async def rewards(subject: Subject) -> Finding:
    """Rewards are numbers, they differ, and doing the same thing every time does not earn the most."""
    idle = await _episodes(subject, subject.first_action_player())
    random = await _episodes(subject, subject.random_player("rewards"))
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
        return warned(f"every reward is {steps[0]}", "let the reward tell better play from worse")
    return _compared(_scores(idle), _scores(random))


def _compared(idle: _Scores, random: _Scores) -> Finding:
    """idle: of the player that takes the first action every time."""
    seen = f"mean of the first action every time {idle}, of random play {random}"
    remedy = "look at the reward: it should not pay to do nothing"
    totals = (*idle.totals, *random.totals)
    if max(totals) > min(totals) and idle.mean >= max(totals):
        return warned(f"a policy that does nothing scores {idle.mean:+.3f}, the most that was seen; {seen}", remedy)
    if idle.interval[0] > random.interval[1]:
        return warned(f"a policy that does nothing scores {idle.mean:+.3f}, above random play; {seen}", remedy)
    return passed(seen)


async def _episodes(subject: Subject, player: Player) -> list[Played]:
    """A hundred episodes, or as many as three seconds allow, at least five."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _MOST_S
    played: list[Played] = []
    async with subject.dialogue() as dialogue:
        while len(played) < _EPISODES and (loop.time() < give_up or len(played) < _FEWEST):
            played.append(await play(dialogue, subject.seed + len(played), player, _STEPS))
    return played


def _scores(episodes: Sequence[Played]) -> _Scores:
    totals = [math.fsum(reward or 0.0 for reward in episode.rewards) for episode in episodes]
    mean, interval = mean_and_interval(totals)
    return _Scores(totals, mean, interval)


def _is_number(reward: object) -> bool:
    return isinstance(reward, int | float) and math.isfinite(reward)
