"""Exact results of best play, random play and known policies in small games. `optimum` computes them."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from openenv.core.formats.yaml_text import read_yaml

BASELINES_FILE = Path(__file__).with_name("baselines.yaml")


@dataclass(frozen=True, slots=True)
class Baseline:
    """Results of one policy in one game from one seat, against uniformly random play of the others."""

    game: str
    seat: int
    policy: str
    """`optimum`, `random`, or a named policy such as `chart` in blackjack."""
    mean: float
    """Expected return."""
    win: float
    """Probability of a return above 0."""
    push: float
    """Probability of a return of 0."""
    loss: float
    """Probability of a return below 0."""


def baselines(game: str, seat: int = 0) -> dict[str, Baseline]:
    """Return the baselines of a game by policy; an empty dictionary for a game without any."""
    return {baseline.policy: baseline for baseline in _all() if (baseline.game, baseline.seat) == (game, seat)}


@cache
def _all() -> tuple[Baseline, ...]:
    return tuple(Baseline(**row) for row in read_yaml(BASELINES_FILE))
