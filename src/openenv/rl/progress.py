"""How far a run is, and what it reports while it works."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from openenv.rl.budget import Budget

OnProgress = Callable[[str, int, int, dict[str, Any]], None]
"""Called with the phase (`random play`, `pretrain`, `teacher`, `warm start`, `train`, `evaluate ...`), how much of it
is done, how much there is, and in training the metrics of the step, and as `transcripts` the newest sample
transcripts. Between steps of training the mapping has `evaluated` and `to_evaluate`, or the `status` of the run (every
two seconds), and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProgress:
    """The progress of a run. Its random numbers follow from the run's seed and the group numbers."""

    step: int
    """Number of batches trained on, which is the policy version. The numbers of the groups follow from it."""
    training_s: float
    """Seconds of training so far."""
    spent_s: float = 0.0
    """Seconds of the run's time budget so far."""
    last_signal: int = 0
    """The last step with a group whose episodes differ in reward; 0 if there was none."""
    levels: list[list[int]] = field(default_factory=list)
    """`Curricula.state` after the groups of these steps; empty before the first step."""


def pace(times_s: Sequence[float], left: int) -> dict[str, float]:
    """Seconds a step, and minutes to the end of training. Empty before the second step: the first is slower.

    times_s: of the steps so far. left: steps to the end.
    """
    if len(times_s) < 2:
        return {}
    mean_s = sum(times_s[1:]) / len(times_s[1:])
    return {"s_a_step": mean_s, "minutes_to_end": mean_s * left / 60.0}


def with_time_left(on_progress: OnProgress | None, budget: Budget) -> OnProgress:
    """Adds `minutes_left` to what is reported, if time is limited. None reports nothing."""

    def report(phase: str, done: int, total: int, known: dict[str, Any]) -> None:
        if on_progress is not None:
            left_s = budget.left_s
            on_progress(phase, done, total, known if left_s is None else {**known, "minutes_left": left_s / 60.0})

    return report
