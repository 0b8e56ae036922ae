"""One JSON line per training step, under the names that TRL made known; and what a batch of groups says of the play."""

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openenv.rl.trajectory import Group

Row = dict[str, Any]


class MetricsLog:
    """`metrics.jsonl` of a run. Each row is written at once, so that an interrupted run keeps them all."""

    def __init__(self, path: Path, *, first_step: int = 0) -> None:
        """first_step: rows of this step and later ones are dropped: the run goes on from there."""
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = [row for row in read_metrics(path) if row["step"] <= first_step]
        path.write_text("".join(f"{json.dumps(row)}\n" for row in kept), encoding="utf-8")

    def append(self, row: Row) -> None:
        """Add a row; it has the key `step`."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(row)}\n")


def read_metrics(path: Path) -> list[Row]:
    """All rows of a file, in order; none when there is no file. A last line that was cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def play_metrics(groups: Sequence[Group], policy_version: int) -> Row:
    """What the episodes of a batch were like. Rates and means are over valid episodes; the mean return leaves out those
    that a reply without a legal action ended, for they have none."""
    episodes = [trajectory for group in groups for trajectory in group.trajectories]
    valid = [trajectory for trajectory in episodes if trajectory.valid]
    outcomes = Counter(trajectory.outcome for trajectory in episodes)
    lengths = [sum(segment.sampled) for trajectory in valid for segment in trajectory.segments]
    returns = [trajectory.game_return for trajectory in valid if trajectory.outcome != "unparseable"]
    spreads = [statistics.pstdev([t.reward for t in group.valid]) for group in groups]
    return {
        "reward": statistics.fmean(trajectory.reward for trajectory in valid),
        "reward_std": statistics.fmean(spreads),
        "frac_reward_zero_std": sum(group.all_equal for group in groups) / len(groups),
        "return": statistics.fmean(returns) if returns else None,
        "win_rate": outcomes["won"] / len(valid),
        "completions/mean_length": statistics.fmean(lengths) if lengths else 0.0,
        "num_tokens": sum(len(segment.token_ids) for trajectory in valid for segment in trajectory.segments),
        "num_episodes": len(episodes),
        "episodes/invalid": outcomes["invalid"],
        "episodes/unparseable": outcomes["unparseable"],
        "off_policy/max_age": max(policy_version - group.policy_version for group in groups),
        "decisions": decision_counts(groups),
    }


def decision_counts(groups: Sequence[Group]) -> dict[str, dict[str, int]]:
    """How often which action was chosen in which situation: `{"hard 16": {"hit": 12, "stand": 3}}`."""
    counts: dict[str, Counter[str]] = {}
    for group in groups:
        for trajectory in group.valid:
            for turn in trajectory.turns:
                if turn.situation is not None and turn.action is not None:
                    counts.setdefault(turn.situation, Counter())[turn.action] += 1
    return {situation: dict(replies) for situation, replies in sorted(counts.items())}
