"""What a run records of each step: a line of metrics, sample transcripts, and the trackers of `report_to`."""

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv.rl.algorithm.replay_buffer import StepGroups
from openenv.rl.config import Config
from openenv.rl.reports.results import MetricsRow, PlayerResult, StepLog
from openenv.rl.reports.trackers import Trackers
from openenv.rl.reports.transcripts import Transcript, sample_transcripts, turn_rows
from openenv.rl.signals.collapse import CollapseWatch, look_metrics
from openenv.rl.signals.hacking_signals import DriftWatch, completion_metrics
from openenv.rl.signals.mismatch import MismatchWatch

if TYPE_CHECKING:
    from openenv.rl.models.chat import Chat

log = logging.getLogger(__name__)


class TrainingLog:
    """Writes `metrics.jsonl` and `transcripts.jsonl` in a run's folder, and sends the same to trackers."""

    def __init__(self, run_dir: Path, config: Config, trackers: Trackers | None = None, *, first_step: int = 0) -> None:
        """trackers: None for none. first_step: what was recorded of later steps is removed, because the run continues
        from it."""
        self._config = config
        self._trackers = trackers or Trackers({})
        self.run_dir = run_dir
        self._metrics = StepLog(run_dir / "metrics.jsonl", first_step=first_step)
        self._transcripts = StepLog(run_dir / "transcripts.jsonl", first_step=first_step)
        self.newest: list[Transcript] = newest_transcripts(self._transcripts.kept)
        """The sample transcripts of the latest step that has some."""
        self._num_tokens = 0
        self._drift = DriftWatch()
        self._mismatch = MismatchWatch()
        self.collapse = CollapseWatch(config)
        """What the latest steps show of a collapse of the policy."""
        for row in self._metrics.kept:
            self._num_tokens = row["num_tokens"]
            self._drift.add(row)
            self._mismatch.add(row)
            self.collapse.add(row)

    def add(self, row: MetricsRow, groups: StepGroups, chat: "Chat") -> MetricsRow:
        """Record a step. Returns its row: that of the trainer and of `play_metrics`, with the metrics of its replies.

        As in TRL, `num_tokens` is the number of tokens of the run so far. A warning of the row is logged.
        """
        self._num_tokens += row["num_tokens"]
        row = {**row, **completion_metrics(groups.played, chat.end_ids), "num_tokens": self._num_tokens}
        row |= look_metrics(groups.played)
        found = (row.get("warning"), self._drift.add(row), self._mismatch.add(row), self.collapse.add(row))
        if self.collapse.sign is not None:
            row["collapse"] = self.collapse.sign.name
        warnings = [text for text in found if text]
        if warnings:
            row["warning"] = " ".join(warnings)
            log.warning("step %d: %s", row["step"], row["warning"])
        self._metrics.append(row)
        self._trackers.log_step(row)
        self._sample(row["step"], groups, chat)
        return row

    def add_evaluation(self, player: str, result: PlayerResult, step: int) -> None:
        """Send the result of a player to the trackers, with metrics named `eval/<player>/...`."""
        rates = {} if math.isnan(result.win_rate) else {"win_rate": result.win_rate}
        values: dict[str, Any] = {**rates, "return": result.mean_return}
        if result.num_games:  # otherwise the values are exact
            values |= {"num_episodes": result.num_games, "episodes/unparseable": result.num_unparseable}
        self._trackers.log_evaluation(player, values, step)

    def _sample(self, step: int, groups: StepGroups, chat: "Chat") -> None:
        settings = self._config.transcripts
        if settings.interval and (step - 1) % settings.interval == 0:
            self.newest = sample_transcripts(step, groups, settings.num_episodes, chat, self._config.advantage)
            self._transcripts.append(*self.newest)
            self._trackers.log_completions(turn_rows(self.newest), step)


def newest_transcripts(transcripts: list[Transcript]) -> list[Transcript]:
    """Those of the latest step."""
    return [transcript for transcript in transcripts if transcript["step"] == transcripts[-1]["step"]]


def collapses(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, str]]:
    """The steps at which a sign of a collapse appeared, with its name. rows: of `metrics.jsonl`."""
    names = [None, *(row.get("collapse") for row in rows)]
    return [
        (int(row["step"]), name)
        for row, before, name in zip(rows, names, names[1:], strict=False)
        if name is not None and name != before
    ]
