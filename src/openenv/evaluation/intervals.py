"""Results of episodes, and their rates and means with 95 % intervals."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from openenv.core.outcomes import REFUSED, EpisodeOutcome

Z_95 = 1.959963984540054
"""The standard normal's 97.5 % point."""

_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Student's t, 97.5 % point, for 1 to 15 degrees of freedom."""

Interval = tuple[float, float]
"""Lower and upper end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeResult:
    """The result of one episode."""

    seed: int
    """The seed of its reset."""
    total_reward: float | None
    """Sum of its rewards; None where no step had one. It has no meaning if the outcome is unparseable or invalid."""
    num_steps: int
    """Number of actions taken."""
    outcome: EpisodeOutcome
    success_return: float | None = None
    """The return from which it is a success; None where nothing declares it."""
    reason: str | None = None
    """Why the episode is unparseable or invalid, or was stopped by a limit."""
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each reply was given in each situation, such as ("hard 16", "hit")."""
    num_replies: int = 0
    """Replies of a language model, those that name no action included."""
    num_unparseable_replies: int = 0
    num_cut_off_replies: int = 0
    """Replies that the limit of tokens ended."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Tokens of its prompts and replies; 0 where its server does not count them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The results of one policy. Invalid episodes are counted and excluded from everything else. Unparseable episodes
    count as episodes that were not won, and have no return."""

    name: str
    """The policy's name."""
    num_episodes: int
    """Valid episodes. All rates are fractions of them."""
    declares_success: bool
    """Whether the environment declares what a success is. Without, there is no win rate."""
    num_won: int
    num_push: int
    num_lost: int
    num_unparseable: int
    num_invalid: int
    mean_return: float
    """Mean total reward of the episodes that reached their end. NaN where no step had a reward."""
    return_interval: Interval
    """95 % interval of the mean (normal approximation). Infinite for fewer than two episodes."""
    mean_steps: float
    """Mean number of actions of an episode."""
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each reply was given in each situation, over all valid episodes."""
    invalid_reasons: Counter[str] = field(default_factory=Counter)
    """Number of invalid episodes by reason."""
    refused_reasons: Counter[str] = field(default_factory=Counter)
    """Number of unparseable episodes that a refused action ended, by reason."""
    num_stopped: int = 0
    """Number of played episodes that a limit stopped before their end: their rewards so far count."""
    num_replies: int = 0
    num_unparseable_replies: int = 0
    num_cut_off_replies: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """As in `EpisodeResult`, over all episodes, invalid ones included."""

    @property
    def num_played(self) -> int:
        """Episodes that have ended, invalid ones included."""
        return self.num_episodes + self.num_invalid

    @property
    def win_rate(self) -> float:
        """Fraction of valid episodes that were won, 0 to 1. NaN without valid episodes, and without a declaration."""
        return _ratio(self.num_won, self.num_episodes) if self.declares_success else math.nan

    @property
    def push_rate(self) -> float:
        """Fraction of valid episodes that were a draw."""
        return _ratio(self.num_push, self.num_episodes)

    @property
    def win_interval(self) -> Interval:
        """95 % Wilson score interval of the win rate (Wilson 1927). From 0 to 1 without a declaration."""
        return wilson_interval(self.num_won, self.num_episodes if self.declares_success else 0)


def summarize(name: str, episodes: Sequence[EpisodeResult]) -> Summary:
    """Summarize the episodes of one policy."""
    valid = [episode for episode in episodes if episode.outcome != "invalid"]
    outcomes = Counter(episode.outcome for episode in episodes)
    played_out = [episode for episode in valid if episode.outcome != "unparseable"]
    mean, interval = mean_and_interval([total for one in played_out if (total := one.total_reward) is not None])
    return Summary(
        name=name,
        num_episodes=len(valid),
        declares_success=any(episode.success_return is not None for episode in episodes),
        num_won=outcomes["won"],
        num_push=outcomes["push"],
        num_lost=outcomes["lost"],
        num_unparseable=outcomes["unparseable"],
        num_invalid=outcomes["invalid"],
        mean_return=mean,
        return_interval=interval,
        mean_steps=_ratio(sum(episode.num_steps for episode in valid), len(valid)),
        decisions=sum((episode.decisions for episode in valid), Counter()),
        num_stopped=sum(episode.reason is not None for episode in played_out),
        invalid_reasons=Counter(episode.reason or "unknown" for episode in episodes if episode.outcome == "invalid"),
        refused_reasons=Counter(one.reason for one in episodes if one.reason and one.reason.startswith(REFUSED)),
        num_replies=sum(episode.num_replies for episode in episodes),
        num_unparseable_replies=sum(episode.num_unparseable_replies for episode in episodes),
        num_cut_off_replies=sum(episode.num_cut_off_replies for episode in episodes),
        prompt_tokens=sum(episode.prompt_tokens for episode in episodes),
        completion_tokens=sum(episode.completion_tokens for episode in episodes),
    )


def wilson_interval(successes: float, trials: int, z: float = Z_95) -> Interval:
    """Wilson score interval of a rate, within 0 and 1. Without trials: (0, 1).

    Args:
        successes: also the sum of values from 0 to 1, one for each trial. They vary at most as much as wins and losses
            of the same mean, so that the interval is rather too wide.
        z: 1.96 for 95 %.
    """
    if trials == 0:
        return 0.0, 1.0
    rate = successes / trials
    scale = 1.0 / (1.0 + z * z / trials)
    centre = scale * (rate + z * z / (2 * trials))
    half = scale * z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    low = 0.0 if successes == 0 else centre - half  # exactly: rounding must not exclude the rate itself
    high = 1.0 if successes == trials else centre + half
    return low, high


def pass_at_k(trials: int, successes: int, k: int) -> float:
    """The probability that one of `k` trials is a success, estimated without bias from `trials` of them.

    1 - C(trials - successes, k) / C(trials, k), equation 1 of arXiv:2107.03374. Raises ValueError for fewer than k
    trials: they say nothing about k.
    """
    if not 1 <= k <= trials:
        raise ValueError(f"k={k}: must be from 1 to the number of trials, {trials}.")
    return 1.0 - math.comb(trials - successes, k) / math.comb(trials, k)


def mean_and_interval(values: Sequence[float], z: float = Z_95) -> tuple[float, Interval]:
    """The mean and its interval of z standard errors to each side. Infinite for fewer than two values."""
    if not values:
        return math.nan, (-math.inf, math.inf)
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, (-math.inf, math.inf)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = z * math.sqrt(variance / len(values))
    return mean, (mean - half, mean + half)


def mean_over_runs(values: Sequence[float]) -> tuple[float, Interval]:
    """The mean of a few independent runs and its 95 % interval by Student's t. Infinite for fewer than two values."""
    freedom = len(values) - 1
    if freedom < 1:
        return mean_and_interval(values)
    t = _T_95[freedom - 1] if freedom <= len(_T_95) else Z_95 * (1 + (Z_95**2 + 1) / (4 * freedom))
    return mean_and_interval(values, t)


def _ratio(part: float, whole: int) -> float:
    return part / whole if whole else math.nan
