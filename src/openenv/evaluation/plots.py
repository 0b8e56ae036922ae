"""Summaries as points with their intervals."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from openenv.evaluation.intervals import Summary
from openenv.evaluation.tables import NO_FINISHED_GAME, NO_RETURN, ranked


def plot_summaries(summaries: Sequence[Summary], path: str | Path) -> Path:
    """Write a plot of mean returns, and success rates where they are declared, with 95 % intervals, best policy
    first. Returns its path.

    path: a .png, .svg or .pdf file; its folder is created if it does not exist. Raises ValueError without summaries.
    """
    figure = summaries_figure(summaries)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=150)
    return target


def summaries_figure(summaries: Sequence[Summary]) -> Figure:
    """The figure that `plot_summaries` writes. The better a policy, the further right is its point."""
    best_first = [summary for _, summary in ranked(summaries)]
    if not best_first:
        raise ValueError("summaries is empty: there is nothing to draw.")
    figure = Figure(figsize=(10, 1.4 + 0.5 * len(best_first)), layout="constrained")
    FigureCanvasAgg(figure)
    names = [summary.name for summary in best_first]
    shows_success = any(s.declares_success for s in best_first)
    *left, right = figure.subplots(1, 1 + shows_success, sharey=True, squeeze=False)[0]
    for axes in left:
        _points(axes, names, [s.win_rate for s in best_first], [s.win_interval for s in best_first], NO_FINISHED_GAME)
        axes.set(xlabel="success rate", xlim=(-0.02, 1.02))
    _points(right, names, [s.mean_return for s in best_first], [s.return_interval for s in best_first], NO_RETURN)
    right.set(xlabel="mean return", ylim=(len(names) - 0.5, -0.5))
    figure.suptitle(f"{max(s.num_episodes for s in best_first)} episodes each, 95 % intervals")
    return figure


def _points(axes: Any, names: list[str], values: list[float], intervals: list[tuple[float, float]], none: str) -> None:
    """none: what stands in place of a value that is NaN."""
    below = [_finite(value - low) for value, (low, _) in zip(values, intervals, strict=True)]
    above = [_finite(high - value) for value, (_, high) in zip(values, intervals, strict=True)]
    rows = range(len(names))  # not the names: two policies with the same name are two rows
    for row, value in enumerate(values):
        if math.isnan(value):
            axes.annotate(none, (0.02, row), xycoords=("axes fraction", "data"), va="center")
    axes.errorbar(values, rows, xerr=(below, above), fmt="o", capsize=4, color="#1f5fd0", ecolor="#222222")
    axes.set_yticks(rows, names)
    axes.grid(alpha=0.3)


def _finite(length: float) -> float:
    """The length of an error bar; 0 for an infinite interval, and without a game."""
    return max(0.0, length) if math.isfinite(length) else 0.0
