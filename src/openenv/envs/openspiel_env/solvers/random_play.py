"""Random play of OpenSpiel alone."""

from collections.abc import Iterator
from random import Random

import pyspiel


def random_decisions(game_name: str) -> Iterator[int]:
    """Random play of a game in OpenSpiel alone. Only the decisions of the first seat count as steps."""
    game, rng = pyspiel.load_game(game_name), Random(0)
    while True:
        state = game.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                outcomes, weights = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(rng.choices(outcomes, weights)[0])
                continue
            is_counted = state.current_player() == 0
            state.apply_action(rng.choice(state.legal_actions()))
            if is_counted:
                yield 1
