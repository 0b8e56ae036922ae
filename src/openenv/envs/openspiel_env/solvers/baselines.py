"""Exact results of best play, random play and known policies in small games. `optimum` computes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from openenv.envs.measured import Optimum
from openenv.formats.yaml_text import read_yaml

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


def optimum(
    game_name: str = "",
    agent_player: int = 0,
    opponent_policy: Any = "random",
    game_params: Mapping[str, Any] | None = None,
    **_: Any,
) -> Optimum | None:
    """The exact result of best play with these keywords of a reset.

    None where it is not known: in larger games, with parameters of a game, and against other opponents than random.
    """
    best = baselines(game_name, agent_player).get("optimum")
    if best is None or game_params or opponent_policy != "random":
        return None
    return Optimum(best.mean, best.win)


def known_policy(game_name: str = "", game_params: Mapping[str, Any] | None = None, **_: Any) -> str | None:
    """The name of a good policy, which needs no learning, in the game of these keywords; None: there is none."""
    return None if game_params else {"blackjack": "chart", "catch": "smart"}.get(game_name)


@cache
def _all() -> tuple[Baseline, ...]:
    return tuple(Baseline(**row) for row in read_yaml(BASELINES_FILE))
