"""Tree search from what the player knows: the open history of a game in which nothing is hidden."""

import json
from collections.abc import Mapping
from functools import lru_cache
from random import Random
from typing import Any, ClassVar

import open_spiel.python.games  # noqa: F401  registers the games written in Python
import pyspiel

from openenv.policies.base import Policy


class MCTSPolicy(Policy):
    """Monte Carlo tree search with random rollouts, on a copy of the game rebuilt from its public history.

    Needs OpenSpiel on the player's side, and an environment that tells the history (`reset(reveal_history=True)`),
    which it does only for turn-based games of perfect information: search never sees what a player may not.
    """

    name = "mcts"
    is_slow: ClassVar[bool] = True
    reset_kwargs: Mapping[str, Any] = {"reveal_history": True}

    def __init__(self, seed: int | None = None, *, simulations: int = 100, exploration: float = 2.0) -> None:
        """simulations: rollouts for each move. exploration: the constant of UCT."""
        self._rng = Random(seed)
        self._simulations = simulations
        self._exploration = exploration

    def select_action(self, observation: Any) -> int:
        """The most visited move. Raises ValueError where the observation tells no history."""
        told = observation.metadata
        if "history" not in told:
            raise ValueError("The mcts policy needs the history: call reset(reveal_history=True).")
        game = _game(told["game_name"], json.dumps(told.get("game_params", {}), sort_keys=True))
        state = game.new_initial_state()
        for action in told["history"]:
            state.apply_action(action)
        evaluator = pyspiel.RandomRolloutEvaluator(1, self._rng.getrandbits(31))
        bot = pyspiel.MCTSBot(
            game, evaluator, self._exploration, self._simulations, 64, True, self._rng.getrandbits(31), False
        )
        return int(bot.step(state))


@lru_cache(maxsize=16)
def _game(name: str, params_json: str) -> Any:
    return pyspiel.load_game(name, json.loads(params_json))
