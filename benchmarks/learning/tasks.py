"""The environments to learn, with what is known of them: the optimum, and a floor for a trained model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Measure = Literal["win_rate", "mean_return", "hit_to_11", "hit_from_17"]
"""The last two: the share of hits in blackjack, for hard totals up to 11 and from 17."""


@dataclass(frozen=True)
class Goal:
    """What is measured of a trained model."""

    measure: Measure
    optimum: float | None = None
    """Exact, or the best that is known; None: not known."""
    floor: float | None = None
    """What the mean over the seeds must reach; None: it is only reported."""
    ceiling: float | None = None
    """What it must not exceed."""
    times_before: float | None = None
    """How many times its value before GRPO, where the model is a pretrained one, it must reach."""


@dataclass(frozen=True)
class Task:
    """An environment to learn."""

    env: str
    goals: Sequence[Goal]
    reset: dict[str, Any] = field(default_factory=dict)
    """Keywords of every reset."""
    num_games: int | None = None
    """Games of each player's evaluation; None: as many as the configuration has. Long ones need fewer."""


def _spiel(game: str, *goals: Goal, num_games: int | None = None) -> Task:
    return Task("openspiel", goals, {"game_name": game}, num_games=num_games)


TASKS: dict[str, Task] = {
    "blackjack": _spiel("blackjack", Goal("win_rate", 0.432798843, 0.425), Goal("mean_return", -0.042462276, -0.06)),
    "catch": _spiel("catch", Goal("win_rate", 1.0, 0.99)),
    "tic_tac_toe": _spiel("tic_tac_toe", Goal("win_rate", 191 / 192, 0.99)),
    "kuhn_poker": _spiel("kuhn_poker", Goal("win_rate", 0.75, 0.74), Goal("mean_return", 0.5)),
    "leduc_poker": _spiel("leduc_poker", Goal("mean_return", 167 / 80)),
    "cliff_walking": _spiel("cliff_walking", Goal("mean_return", -9.0)),
    "connect_four": _spiel("connect_four", Goal("win_rate", None, 0.9), num_games=4000),
    "guess": Task("guess", [Goal("win_rate", 1.0, 0.99)]),
    # the floor is the longest reply of random play; the best is four times the longest word that the model knows
    "echo": Task(
        f"{Path(__file__).with_name('one_message.py')}:OneMessageEnvironment", [Goal("mean_return", 4.7, 1.1)]
    ),
    "frozen_lake": Task(
        "gymnasium", [Goal("win_rate", 1.0, 1.0)], {"env_id": "FrozenLake-v1", "env_options": {"is_slippery": False}}
    ),
    # solved is 475 of at most 500 steps; the floor is half of the way there from random play, 22
    "cart_pole": Task("gymnasium", [Goal("mean_return", 500.0, 248.5)], {"env_id": "CartPole-v1"}, num_games=1000),
}

MODEL_TASKS: dict[str, Task] = {
    "guess": Task("guess", [Goal("win_rate", 1.0, 0.97)]),
    "blackjack": _spiel(
        "blackjack",
        Goal("win_rate", 0.432798843, 0.415),
        Goal("hit_to_11", 1.0, 0.9),
        Goal("hit_from_17", 0.0, ceiling=0.15),
        num_games=5000,  # those of the model before GRPO are sampled, which takes minutes
    ),
    "tic_tac_toe": _spiel("tic_tac_toe", Goal("win_rate", 191 / 192, 0.88)),
    "kuhn_poker": _spiel("kuhn_poker", Goal("win_rate", 0.75, 0.72)),
    "maze": Task("maze", [Goal("mean_return", 0.911, 0.774)], num_games=300),  # some twenty decisions each
    "reasoning_gym": Task(
        "reasoning_gym", [Goal("win_rate", 1.0, times_before=2.0)], {"dataset": "chain_sum"}, num_games=1000
    ),
}
"""The same for a pretrained model: SmolLM2-135M-Instruct."""
SETS: dict[str, dict[str, Task]] = {"tiny": TASKS, "smollm2": MODEL_TASKS}
"""The tasks by the model that learns them."""
