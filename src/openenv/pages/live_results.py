"""The results of an evaluation while it runs: a thread adds them, and another reads the table so far."""

import dataclasses
import math
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from openenv.evaluation.intervals import EpisodeResult, Summary, summarize
from openenv.evaluation.policy_player import EpisodeObserver
from openenv.evaluation.tables import ranked


class LiveResults:
    """The results of policies so far. Safe to use from several threads."""

    def __init__(self, names: Sequence[str], num_episodes: int) -> None:
        """names: of the policies, in the order in which they play. num_episodes: that each of them will play."""
        self.names = list(names)
        self.num_episodes = num_episodes
        self._lock = threading.Lock()
        self._episodes: list[list[EpisodeResult]] = [[] for _ in names]
        self._summaries: dict[int, tuple[int, Summary]] = {}
        """By policy: the number of episodes that were summarized, and the summary."""

    def observer(self, policy: int) -> EpisodeObserver:
        """Adds the episodes of a policy, given its place, when they have ended."""
        return _AddEnded(self, policy)

    def add(self, policy: int, result: EpisodeResult) -> None:
        """Add an episode of a policy."""
        with self._lock:
            self._episodes[policy].append(dataclasses.replace(result, decisions=Counter()))

    def has_finished(self, policy: int) -> bool:
        """Whether a policy has played all its episodes."""
        with self._lock:
            return len(self._episodes[policy]) >= self.num_episodes

    def summaries(self) -> list[Summary]:
        """The results of each policy so far, in the order in which they play."""
        with self._lock:
            return [self._summary(policy) for policy in range(len(self.names))]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each policy, in the order in which they play. `place` is 1 for the best; None before an episode."""
        summaries = self.summaries()
        begun = [summary for summary in summaries if summary.num_episodes]
        places = {id(summary): place for place, summary in ranked(begun)}
        return [
            {
                "name": name,
                "place": places.get(id(summary)),
                "wanted": self.num_episodes,
                "played": summary.num_played,
                "win_rate": summary.win_rate,
                "win_interval": summary.win_interval,
                "mean_return": summary.mean_return,
                "return_interval": [end if math.isfinite(end) else None for end in summary.return_interval],
                "mean_steps": summary.mean_steps,
                "problems": self._problems(summary),
            }
            for name, summary in zip(self.names, summaries, strict=True)
        ]

    def _summary(self, policy: int) -> Summary:
        """The summary of the episodes so far, made again only after further ones."""
        episodes = self._episodes[policy]
        counted, summary = self._summaries.get(policy, (-1, None))
        if summary is None or counted != len(episodes):
            summary = summarize(self.names[policy], episodes)
            self._summaries[policy] = len(episodes), summary
        return summary

    def _problems(self, summary: Summary) -> str:
        """Episodes without an ordinary end, in words."""
        counts = {
            "unparseable": summary.num_unparseable, "failed in the environment": summary.num_invalid,
            "stopped by a limit": summary.num_stopped,
        }  # fmt: skip
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


class _AddEnded(EpisodeObserver):
    def __init__(self, results: LiveResults, policy: int) -> None:
        self._results, self._policy = results, policy

    def on_end(self, episode: int, result: EpisodeResult) -> None:
        self._results.add(self._policy, result)
