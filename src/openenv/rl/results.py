"""The rows of a run's table: who played, how often, and how it went."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from openenv.envs.openspiel_env.baselines import baselines
from openenv.evaluation.summary import Summary

Role = Literal["baseline", "before", "after", "optimum"]
Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Result:
    """One row."""

    name: str
    role: Role
    win_rate: float
    """From 0 to 1."""
    mean_return: float
    """Of the game, not of the trainer's reward, over the games that were played to their end."""
    win_interval: Interval | None = None
    """95 %; None for an exact number."""
    return_interval: Interval | None = None
    """95 %; None for an exact number."""
    num_games: int = 0
    """0 for an exact number."""
    num_unparseable: int = 0
    """Games ended by a reply that named no legal action; they are among the games, and not won."""
    num_invalid: int = 0
    """Games that the environment broke; they are not among the games."""
    decisions: dict[str, dict[str, int]] = field(default_factory=dict)
    """How often which reply was given in which situation."""


def result_of(summary: Summary, name: str, role: Role) -> Result:
    """The row of a player whose games were played."""
    decisions: dict[str, dict[str, int]] = {}
    for (situation, reply), count in sorted(summary.decisions.items()):
        decisions.setdefault(situation, {})[reply] = count
    return Result(
        name=name,
        role=role,
        win_rate=summary.win_rate,
        mean_return=summary.mean_return,
        win_interval=summary.win_interval,
        return_interval=summary.return_interval,
        num_games=summary.num_episodes,
        num_unparseable=summary.num_unparseable,
        num_invalid=summary.num_invalid,
        decisions=decisions,
    )


def reply_share(result: Result, reply: str, kind: str, totals: range) -> float:
    """How often `reply` was given in situations such as `hard 16`, over all `totals`; not a number if never met.

    Example: `reply_share(after, "hit", "hard", range(4, 12))` is P(hit) for hard totals up to 11.
    """
    counts = [result.decisions.get(f"{kind} {total}", {}) for total in totals]
    met = sum(sum(replies.values()) for replies in counts)
    return sum(replies.get(reply, 0) for replies in counts) / met if met else math.nan


def optimum(game: str, seat: int) -> Result | None:
    """The row of the best possible play, computed exactly (`openspiel_env/baselines.yaml`), or None if not known."""
    best = baselines(game, seat).get("optimum")
    return Result(name="optimum", role="optimum", win_rate=best.win, mean_return=best.mean) if best else None


def save_results(run_dir: Path, results: Sequence[Result]) -> None:
    """Write the rows to `results.json` in the run's folder."""
    rows = [asdict(result) for result in results]
    (run_dir / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


def load_results(run_dir: Path) -> list[Result]:
    """The rows that were saved; none when there are none yet."""
    path = run_dir / "results.json"
    if not path.exists():
        return []
    return [Result(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
