"""The results of a competition as a table with medals."""

import math
from collections.abc import Sequence

from rich.table import Table

from openenv.evaluation.summary import Summary

MEDALS = ("🥇", "🥈", "🥉")


def ranked(summaries: Sequence[Summary]) -> list[tuple[int, Summary]]:
    """Place and summary, best first: by mean return, then by win rate; where a policy gave episodes up, which have no
    return, by win rate alone. Equal results share a place (1, 1, 3)."""
    score = _win_score if any(summary.num_unparseable for summary in summaries) else _score
    ordered = sorted(summaries, key=score, reverse=True)
    scores = [score(summary) for summary in ordered]
    return [(scores.index(score(summary)) + 1, summary) for summary in ordered]


def medal_table(summaries: Sequence[Summary]) -> Table:
    """A rich table, best policy first, with gold, silver and bronze."""
    table = Table(title="Results, with 95 % intervals")
    table.add_column("")
    table.add_column("policy")
    for heading in ("success rate", "mean return", "push", "steps", "episodes"):
        table.add_column(heading, justify="right")
    broken = any(summary.num_unparseable or summary.num_invalid for summary in summaries)
    if broken:
        table.add_column("unparseable", justify="right")
        table.add_column("invalid", justify="right")
    for place, summary in ranked(summaries):
        cells = [MEDALS[place - 1] if place <= len(MEDALS) else str(place), summary.name, *_cells(summary)]
        table.add_row(*cells, *([str(summary.num_unparseable), str(summary.num_invalid)] if broken else []))
    return table


def _cells(summary: Summary) -> list[str]:
    low, high = summary.win_interval
    return [
        f"{summary.win_rate:.1%} ({100 * low:.1f}-{100 * high:.1f})",
        f"{summary.mean_return:+.3f} ± {summary.return_interval[1] - summary.mean_return:.3f}",
        f"{summary.push_rate:.1%}",
        f"{summary.mean_steps:.1f}",
        str(summary.num_episodes),
    ]


def _score(summary: Summary) -> tuple[float, float]:
    """What policies are ranked by; nothing valid ranks last."""
    if math.isnan(summary.mean_return):
        return -math.inf, -math.inf
    return summary.mean_return, summary.win_rate


def _win_score(summary: Summary) -> tuple[float, float]:
    return (-math.inf, -math.inf) if math.isnan(summary.win_rate) else (summary.win_rate, 0.0)
