"""An episode: rewards, opponents, and what the next episode of the same players starts from."""

from random import Random

import pytest

from openenv.envs.openspiel_env.server.episode import advance, collect_reward
from openenv.envs.openspiel_env.server.prepared_game import GameChoice
from tests.envs.openspiel_env.playing import first_decision


@pytest.mark.parametrize("game", ["2048", "cliff_walking", "cribbage", "hanabi", "laser_tag", "pathfinding"])
def test_step_rewards_sum_to_the_games_return(game: str) -> None:
    episode, rng = first_decision(GameChoice(game_name=game), 3), Random(3)
    rewards = []
    while episode.phase != "terminal":
        advance(episode, rng.choice(episode.state.legal_actions(0)))
        rewards.append(collect_reward(episode))

    assert sum(rewards) == pytest.approx(episode.state.returns()[0])
    assert sum(1 for reward in rewards if reward) > 1 or game in ("hanabi", "cliff_walking")


def test_opponents_take_all_seats_but_the_agents() -> None:
    choice = GameChoice(game_name="hearts", agent_player=1, opponent_policy=["first", "last", "random"])

    assert list(first_decision(choice, 0).opponents) == [0, 2, 3]


def test_a_restarted_episode_has_no_actions_and_continues_the_random_stream() -> None:
    episode = first_decision(GameChoice(game_name="backgammon"), 5)
    first_deal = episode.state.history()
    advance(episode, episode.state.legal_actions(0)[0])
    episode.restart(episode.prepared)

    assert (episode.actions, episode.phase, episode.rewarded) == ([], "initial", 0.0)
    assert next(episode.rng) != next(first_decision(GameChoice(game_name="backgammon"), 5).rng)
    assert first_deal
