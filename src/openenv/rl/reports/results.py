"""Metrics and results of a run: one JSON line for each training step, and the summary of the evaluations."""

import math
import os
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from openenv.envs.measured import Optimum
from openenv.evaluation.intervals import Interval, Summary
from openenv.formats.json_text import json_text
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.config import EnvConfig
from openenv.rl.environments import labels
from openenv.rl.reports.run_files import open_run_file, parsed, read_run_json

_MAX_LINE_BYTES = 64 << 20
MetricsRow = dict[str, Any]
WARM_START = "warm_start.json"
"""The file of what a model has learned from a teacher."""


class StepLog:
    """JSON lines about the steps of a run. Each is written immediately: an interrupted run keeps all."""

    def __init__(self, path: Path, *, first_step: int = 0) -> None:
        """first_step: rows after this step are removed, because the run continues from it."""
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.kept = [row for row in read_rows(path) if row["step"] <= first_step]
        """The rows of the steps up to `first_step`."""
        replace_text(path, "".join(f"{json_text(row)}\n" for row in self.kept))

    def append(self, *rows: MetricsRow) -> None:
        """Append rows, each of which has the key `step`."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{json_text(row)}\n" for row in rows))


def replace_text(path: Path, text: str) -> None:
    """Write a file completely or not at all, also if the process is killed meanwhile."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def read_rows(path: Path) -> list[MetricsRow]:
    """All rows of a file, in order; none if there is no file. An incomplete last line is ignored."""
    return RowReader(path).read()


class RowReader:
    """Reads the rows of a file that grows. Each row is read once."""

    def __init__(self, path: Path) -> None:
        """Reads nothing yet. The file need not exist."""
        self._path = path
        self._rows: list[MetricsRow] = []
        self._offset = 0
        self._last_line = b""
        """Ends at the offset. Where the file has another text there, its earlier rows are others, too."""
        self.generation = 0
        """Counts the files whose rows were read: a run that is resumed, or made again, replaces its file."""

    def read(self) -> list[MetricsRow]:
        """All rows so far, in order, in one list that grows. An incomplete last line is read when it is complete."""
        try:
            file = open_run_file(self._path)
        except FileNotFoundError:
            self._begin_again()
            return self._rows
        with file:
            file.seek(self._offset - len(self._last_line))
            if file.read(len(self._last_line)) != self._last_line:
                self._begin_again()
                file.seek(0)
            lines = list(self._whole_lines(file))
        self._rows += [parsed(self._path, line) for line in lines]  # none of them where one cannot be read
        self._offset += sum(map(len, lines))
        self._last_line = lines[-1] if lines else self._last_line
        return self._rows

    def _whole_lines(self, file: BinaryIO) -> Iterator[bytes]:
        while (line := file.readline(_MAX_LINE_BYTES)).endswith(b"\n"):
            yield line
        if len(line) >= _MAX_LINE_BYTES:
            raise ValueError(f"{self._path} has a line of more than {_MAX_LINE_BYTES} bytes: it is no file of a run")

    def _begin_again(self) -> None:
        """Forget the rows of another file."""
        self.generation += bool(self._rows)
        self._rows, self._offset, self._last_line = [], 0, b""


def play_metrics(played: Sequence[Group], trained: Sequence[Group], policy_version: int) -> MetricsRow:
    """Metrics of the groups that were played for a step. Rates and means are over valid episodes; None without one.

    trained: those of them that are trained on, whose age counts. The mean return excludes unparseable episodes, which
    have none.
    """
    episodes = [trajectory for group in played for trajectory in group.trajectories]
    valid = [trajectory for trajectory in episodes if trajectory.valid]
    outcomes = Counter(trajectory.outcome for trajectory in episodes)
    comparable = [group for group in played if len(group.valid) > 1]
    return {
        "reward": _mean(trajectory.reward for trajectory in valid),
        "reward_std": _mean(statistics.pstdev([t.reward for t in group.valid]) for group in comparable),
        "frac_reward_zero_std": _mean(group.all_equal for group in comparable),
        "return": _mean(t.game_return for t in valid if t.outcome != "unparseable"),
        "win_rate": _win_rate(valid),
        "num_tokens": sum(len(segment) for trajectory in valid for segment in trajectory.segments),
        "num_episodes": len(episodes),
        "num_groups/played": len(played),
        "num_groups/trained": len(trained),
        "episodes/invalid": outcomes["invalid"],
        "episodes/unparseable": outcomes["unparseable"],
        "episodes/stopped": sum(trajectory.is_stopped for trajectory in episodes),
        "replies/unparseable": sum(turn.action is None for trajectory in valid for turn in trajectory.turns),
        "replies/cut_off": sum(turn.is_cut_off for trajectory in valid for turn in trajectory.turns),
        "off_policy/max_age": max((policy_version - group.policy_version for group in trained), default=0),
        "off_policy/mean_age": _mean_age(trained, policy_version),
        **_part_metrics(valid),
        "decisions": decision_counts(played),
    }


def environment_metrics(
    played: Sequence[Group], levels: Sequence[Sequence[int]], configs: Sequence[EnvConfig]
) -> MetricsRow:
    """Metrics of each environment of several, and the level of each with a curriculum. levels: `Curricula.state`."""
    row: MetricsRow = {}
    for number, (config, label) in enumerate(zip(configs, labels(configs), strict=True)):
        if config.curriculum is not None:
            row[f"level/{label}"] = levels[number][0]
        if len(configs) == 1:
            continue
        valid = [t for group in played if group.environment == number for t in group.valid]
        row[f"reward/{label}"] = _mean(trajectory.reward for trajectory in valid)
        row[f"return/{label}"] = _mean(t.game_return for t in valid if t.outcome != "unparseable")
        row[f"win_rate/{label}"] = _win_rate(valid)
    return row


def _win_rate(valid: Sequence[Trajectory]) -> float | None:
    """The share of valid episodes that were won; None where no success is declared."""
    declared = any(trajectory.success_return is not None for trajectory in valid)
    return _mean(trajectory.outcome == "won" for trajectory in valid) if declared else None


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known; None without any."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _mean_age(groups: Sequence[Group], policy_version: int) -> float:
    """The mean age of the tokens that were sampled in valid episodes, in steps."""
    segments = [segment for group in groups for trajectory in group.valid for segment in trajectory.segments]
    versions = [segment.versions[segment.sampled] for segment in segments]
    return policy_version - sum(int(of.sum()) for of in versions) / sum(map(len, versions)) if versions else 0.0


def _part_metrics(episodes: Sequence[Trajectory]) -> MetricsRow:
    """The mean score of each part of the environment's rubric, over the turns that have it."""
    scores: dict[str, list[float]] = {}
    for trajectory in episodes:
        for turn in trajectory.turns:
            for part, score in turn.part_scores.items():
                scores.setdefault(part, []).append(score)
    return {f"rewards/{part}/mean": statistics.fmean(values) for part, values in sorted(scores.items())}


def decision_counts(groups: Sequence[Group]) -> dict[str, dict[str, int]]:
    """How often each action was chosen in each situation: `{"hard 16": {"hit": 12, "stand": 3}}`."""
    counts: dict[str, Counter[str]] = {}
    for group in groups:
        for trajectory in group.valid:
            for turn in trajectory.turns:
                if turn.situation is not None and turn.action is not None:
                    counts.setdefault(turn.situation, Counter())[turn.action] += 1
    return {situation: dict(replies) for situation, replies in sorted(counts.items())}


Role = Literal["baseline", "before", "after", "optimum"]


@dataclass(frozen=True, kw_only=True)
class PlayerResult:
    """The result of one player."""

    name: str
    role: Role
    win_rate: float
    """From 0 to 1."""
    mean_return: float
    """Mean return of the game, not of the trainer's reward, over the games that reached their end."""
    win_interval: Interval | None = None
    """95 %; None for an exact number."""
    return_interval: Interval | None = None
    """95 %; None for an exact number."""
    num_games: int = 0
    """0 for an exact number."""
    num_unparseable: int = 0
    """Games that a reply without a legal action ended. They count as games that were not won."""
    num_invalid: int = 0
    """Games in which the environment failed. They are not among the games."""
    num_cut_off_replies: int = 0
    """Replies that `max_res_tokens` ended."""
    decisions: dict[str, dict[str, int]] = field(default_factory=dict)
    """How often each reply was given in each situation."""


def result_of(summary: Summary, name: str, role: Role) -> PlayerResult:
    """The result of a player from the summary of its games."""
    decisions: dict[str, dict[str, int]] = {}
    for (situation, reply), count in sorted(summary.decisions.items()):
        decisions.setdefault(situation, {})[reply] = count
    return PlayerResult(
        name=name,
        role=role,
        win_rate=summary.win_rate,
        mean_return=summary.mean_return,
        win_interval=summary.win_interval,
        return_interval=summary.return_interval,
        num_games=summary.num_episodes,
        num_unparseable=summary.num_unparseable,
        num_invalid=summary.num_invalid,
        num_cut_off_replies=summary.num_cut_off_replies,
        decisions=decisions,
    )


def declare_success(results: Sequence[PlayerResult]) -> bool:
    """Whether the environment of these results declares what a success is: otherwise there is no win rate."""
    return not all(math.isnan(result.win_rate) for result in results if result.role != "optimum")


def optimum_row(best: Optimum, name: str = "optimum") -> PlayerResult:
    """The row of the best possible play, whose result is exact."""
    return PlayerResult(name=name, role="optimum", win_rate=best.win_rate, mean_return=best.mean_return)


def save_results(run_dir: Path, results: Sequence[PlayerResult]) -> None:
    """Write the results to `results.json` in the run's folder."""
    rows = [asdict(result) for result in results]
    replace_text(run_dir / "results.json", json_text(rows, indent=1))


def load_results(run_dir: Path) -> list[PlayerResult]:
    """The saved results; none if there are none yet."""
    path = run_dir / "results.json"
    if not path.exists():
        return []
    return [_result(row) for row in read_run_json(path)]


def _result(row: dict[str, Any]) -> PlayerResult:
    """A result as it was before the file, which has null for a number that JSON does not have."""
    numbers = {name: math.nan if row[name] is None else row[name] for name in ("win_rate", "mean_return")}
    intervals = {name: _interval(row[name]) for name in ("win_interval", "return_interval") if row.get(name)}
    return PlayerResult(**{**row, **numbers, **intervals})


def _interval(ends: Sequence[float | None]) -> Interval:
    low, high = ends
    return -math.inf if low is None else low, math.inf if high is None else high
