"""A restored game continues exactly as the saved one: board, chance, opponents, steps and rewards."""

from random import Random

import pytest

from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment

CHOICES = [
    {"game_name": "tic_tac_toe", "agent_player": 1},
    {"game_name": "tic_tac_toe", "opponent_policy": "mcts"},
    {"game_name": "blackjack"},
    {"game_name": "kuhn_poker"},
    {"game_name": "backgammon"},
    {"game_name": "goofspiel"},
    {"game_name": "2048"},
    {"game_name": "cribbage"},
    {"game_name": "tarok"},
]


def some_steps(env, rng, limit):
    """Take up to `limit` random steps and return their results."""
    seen = []
    observation = env.last
    while not observation.done and len(seen) < limit:
        result = env.step(OpenSpielAction(action_id=rng.choice(observation.legal_actions)))
        observation = env.last = result.observation
        seen.append(result)
    return seen


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(map(str, choice.values())))
def test_equal_actions_after_a_fork_give_equal_futures(openspiel_url, choice):
    with OpenSpielEnv(openspiel_url) as env:
        env.last = env.reset(seed=11, **choice).observation
        some_steps(env, Random(1), 3)
        branches = env.fork(2)
        futures = []
        start = env.last
        for player in (env, *branches):
            player.last = start
            futures.append((some_steps(player, Random(2), 40), player.state()))
        for branch in branches:
            branch.close()

    assert futures[0] == futures[1] == futures[2]


def test_branches_may_differ_by_their_actions_alone(openspiel_url):
    with OpenSpielEnv(openspiel_url) as env:
        env.reset(seed=3, game_name="tic_tac_toe")
        one, other = env.fork(2)
        boards = [
            branch.step(OpenSpielAction(action_id=n)).observation.info_state for n, branch in enumerate((one, other))
        ]
        one.close()
        other.close()

        assert boards[0] != boards[1]
        assert env.state().step_count == 0


def test_a_game_that_is_over_is_restored_as_over(openspiel_url):
    with OpenSpielEnv(openspiel_url) as env:
        env.last = env.reset(seed=5, game_name="catch").observation
        total = sum(result.reward for result in some_steps(env, Random(1), 20))
        token = env.save()
        env.reset(seed=6)
        env.restore(token)

        assert total in (-1.0, 1.0)
        assert env.state().step_count == 9
        with pytest.raises(Exception, match="over"):
            env.step(OpenSpielAction(action_id=1))


def test_the_first_step_reports_earlier_rewards_in_a_restored_game_too() -> None:
    env, other = (OpenSpielEnvironment("hanabi", agent_player=1) for _ in range(2))
    first = env.reset(seed=14)
    other.load_state(env.save_state())
    action = OpenSpielAction(action_id=first.legal_actions[0])
    stepped = env.step(action)
    assert stepped.reward == 2.0, "the seat before gained one of the two"
    assert other.step(action) == stepped

    other.load_state(env.save_state())
    action = OpenSpielAction(action_id=stepped.legal_actions[0])
    assert other.step(action) == env.step(action), "the reward is reported once"
