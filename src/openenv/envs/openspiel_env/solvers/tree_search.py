"""Monte Carlo tree search in games of perfect information."""

import json
from functools import lru_cache
from random import Random
from typing import Any

import open_spiel.python.games  # noqa: F401  registers the games written in Python
import pyspiel

from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation
from openenv.formats.json_text import json_text


def search(
    observation: OpenSpielObservation, rng: Random, simulations: int = 100, exploration: float = 2.0
) -> OpenSpielAction:
    """Tree search, in games of perfect information: the most visited action on a copy of the game.

    The copy is rebuilt from the history, which `reset(reveal_history=True)` reveals for turn-based games of perfect
    information only, so the search sees nothing that is hidden.

    Args:
        simulations: random rollouts for each action.
        exploration: the constant of UCT.

    Raises:
        ValueError: the observation has no history.
    """
    metadata = observation.metadata
    if "history" not in metadata:
        raise ValueError("The mcts policy needs the history: call reset(reveal_history=True).")
    game = _game(metadata["game_name"], json_text(metadata.get("game_params", {}), sort_keys=True))
    state = game.new_initial_state()
    for action in metadata["history"]:
        state.apply_action(action)
    evaluator = pyspiel.RandomRolloutEvaluator(1, rng.getrandbits(31))
    bot = pyspiel.MCTSBot(game, evaluator, exploration, simulations, 64, True, rng.getrandbits(31), False)
    return OpenSpielAction(action_id=int(bot.step(state)))


@lru_cache(maxsize=16)
def _game(name: str, params_json: str) -> Any:
    return pyspiel.load_game(name, json.loads(params_json))
