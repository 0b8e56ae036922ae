"""What `openenv envs --measure` plays: three games beside plain OpenSpiel, with the optimum of each."""

import time
from collections.abc import Callable
from random import Random
from typing import Any

import pyspiel

from openenv.envs.measured import MeasuredTask
from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation
from openenv.envs.openspiel_env.solvers.baselines import baselines
from openenv.envs.openspiel_env.solvers.blackjack_chart import chart_hits
from openenv.envs.openspiel_env.text import blackjack_hand, blackjack_total

_HIT, _STAND = 0, 1


def bare(game_name: str) -> Callable[[float], float]:
    """Random play of a game in OpenSpiel alone. Only the decisions of the first seat count as steps."""

    def play(seconds: float) -> float:
        game, rng, steps = pyspiel.load_game(game_name), Random(0), 0
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            state = game.new_initial_state()
            while not state.is_terminal():
                if state.is_chance_node():
                    outcomes, weights = zip(*state.chance_outcomes(), strict=True)
                    state.apply_action(rng.choices(outcomes, weights)[0])
                    continue
                steps += state.current_player() == 0
                state.apply_action(rng.choice(state.legal_actions()))
        return steps / (time.perf_counter() - started)

    return play


def _chart(observation: OpenSpielObservation, rng: Random) -> OpenSpielAction:
    own, dealer = blackjack_hand(observation)
    return OpenSpielAction(action_id=_HIT if chart_hits(*blackjack_total(own), dealer[0]) else _STAND)


def _task(game_name: str, heuristic: Callable[[Any, Random], Any] | None = None) -> MeasuredTask:
    return MeasuredTask(
        reset={"game_name": game_name},
        play_bare=bare(game_name),
        heuristic=heuristic,
        best_return=baselines(game_name)["optimum"].mean,
        num_episodes=5000,
    )


MEASURED = {
    "blackjack": _task("blackjack", _chart),
    "catch": _task("catch"),
    "tic_tac_toe": _task("tic_tac_toe"),
}
