"""A game with several seats is a PettingZoo AEC environment that passes PettingZoo's own tests."""

import warnings
from contextlib import ExitStack
from random import Random

import numpy as np
import pyspiel
import pytest
from pettingzoo.test import api_test, seed_test

from openenv.core.errors import EnvironmentFault
from openenv.integrations.pettingzoo import make

pytestmark = pytest.mark.process


@pytest.mark.parametrize("game", ["tic_tac_toe", "kuhn_poker", "matrix_rps", "connect_four"])
def test_pettingzoos_api_test_passes(game):
    with make("openspiel", {"game_name": game}) as env, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # observations of a poker are no images and have no agent axis
        api_test(env, num_cycles=100)


def test_pettingzoos_seed_test_passes():
    with ExitStack() as served:
        seed_test(lambda: served.enter_context(make("openspiel", {"game_name": "kuhn_poker"})), num_cycles=20)


def test_rewards_and_moves_are_those_of_openspiel():
    game = pyspiel.load_game("tic_tac_toe")
    with make("openspiel", {"game_name": "tic_tac_toe"}) as env:
        for seed in range(10):
            env.reset(seed=seed)
            state, rng, totals = game.new_initial_state(), Random(seed), dict.fromkeys(env.possible_agents, 0.0)
            for agent in env.agent_iter():
                observation, reward, terminated, truncated, _ = env.last()
                totals[agent] += reward
                if terminated or truncated:
                    env.step(None)
                    continue
                assert agent == f"seat_{state.current_player()}"
                assert np.flatnonzero(observation["action_mask"]).tolist() == state.legal_actions()
                action = rng.choice(state.legal_actions())
                state.apply_action(action)
                env.step(action)

            assert list(totals.values()) == state.returns()
            assert env.agents == []


def test_an_illegal_action_raises_and_the_seat_keeps_its_turn():
    with make("openspiel", {"game_name": "tic_tac_toe"}) as env:
        env.reset(seed=0)
        env.step(4)
        with pytest.raises(EnvironmentFault, match="action_id=4 is not legal now"):
            env.step(4)
        assert env.agent_selection == "seat_1"
        env.step(0)
        assert env.agent_selection == "seat_0"


def test_an_environment_with_one_seat_is_refused():
    with pytest.raises(EnvironmentFault, match="agent_player"), make("maze"):
        pass
