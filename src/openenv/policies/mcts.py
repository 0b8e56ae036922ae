"""Monte Carlo tree search in games of perfect information."""

import json
from collections.abc import Mapping
from functools import lru_cache
from random import Random
from typing import Any, ClassVar

import open_spiel.python.games  # noqa: F401  registers the games written in Python
import pyspiel

from openenv.core.formats.json_text import json_text
from openenv.policies.base import Policy


class MCTSPolicy(Policy):
    """Searches with random rollouts on a copy of the game that is rebuilt from its history.

    Needs OpenSpiel in this process, and observations with the history (`reset(reveal_history=True)`). The environment
    reveals it only for turn-based games of perfect information, so the search sees nothing that is hidden.
    """

    name = "mcts"
    is_slow: ClassVar[bool] = True
    reset_kwargs: Mapping[str, Any] = {"reveal_history": True}

    def __init__(self, seed: int | None = None, *, simulations: int = 100, exploration: float = 2.0) -> None:
        """simulations: rollouts for each action. exploration: the constant of UCT."""
        self._rng = Random(seed)
        self._simulations = simulations
        self._exploration = exploration

    def select_action(self, observation: Any) -> int:
        """The most visited action. Raises ValueError if the observation has no history."""
        metadata = observation.metadata
        if "history" not in metadata:
            raise ValueError("The mcts policy needs the history: call reset(reveal_history=True).")
        game = _game(metadata["game_name"], json_text(metadata.get("game_params", {}), sort_keys=True))
        state = game.new_initial_state()
        for action in metadata["history"]:
            state.apply_action(action)
        evaluator = pyspiel.RandomRolloutEvaluator(1, self._rng.getrandbits(31))
        bot = pyspiel.MCTSBot(
            game, evaluator, self._exploration, self._simulations, 64, True, self._rng.getrandbits(31), False
        )
        return int(bot.step(state))


@lru_cache(maxsize=16)
def _game(name: str, params_json: str) -> Any:
    return pyspiel.load_game(name, json.loads(params_json))
