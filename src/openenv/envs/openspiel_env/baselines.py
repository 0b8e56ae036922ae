"""What best play, random play and known policies achieve in small games: exact figures from `server.optimum`."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

FIGURES = Path(__file__).with_name("baselines.yaml")


@dataclass(frozen=True, slots=True)
class Baseline:
    """One policy in one game, from one seat, against uniformly random play on the others."""

    game: str
    seat: int
    policy: str
    """`optimum`, `random`, or a policy known by name, such as `chart` in blackjack."""
    mean: float
    """Expected return."""
    win: float
    """Chance of a return above 0; push and loss likewise at and below 0."""
    push: float
    loss: float


def baselines(game: str, seat: int = 0) -> dict[str, Baseline]:
    """The baselines of a game by policy; empty where none is known."""
    return {baseline.policy: baseline for baseline in _all() if (baseline.game, baseline.seat) == (game, seat)}


@cache
def _all() -> tuple[Baseline, ...]:
    return tuple(Baseline(**row) for row in yaml.safe_load(FIGURES.read_text(encoding="utf-8")))
