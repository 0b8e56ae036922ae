"""Play through a server has the exact win rates and returns: deal, opponents and rewards are those of the game."""

import pytest

from openenv.core.session_pool import SessionPool
from openenv.envs.openspiel_env import OpenSpielEnv
from openenv.envs.openspiel_env.solvers.baselines import baselines
from openenv.evaluation.evaluator import play_episodes
from openenv.evaluation.intervals import mean_and_interval, wilson_interval
from openenv.policies import make_policy

pytestmark = pytest.mark.process

Z_999 = 3.290526731491926
"""A normal variable lies within this many standard deviations with probability 99.9 %."""


@pytest.mark.parametrize(
    ("game", "seat", "policy", "baseline", "num_games"),
    [
        ("blackjack", 0, "random", "random", 6000),
        ("blackjack", 0, "chart", "chart", 6000),
        ("blackjack", 0, "always:stand", "always_stand", 6000),
        ("catch", 0, "random", "random", 3000),
        ("catch", 0, "smart", "optimum", 300),
        ("tic_tac_toe", 0, "random", "random", 3000),
        ("tic_tac_toe", 1, "random", "random", 3000),
        ("kuhn_poker", 0, "random", "random", 6000),
        ("kuhn_poker", 1, "random", "random", 6000),
        ("leduc_poker", 0, "random", "random", 4000),
        ("cliff_walking", 0, "random", "random", 500),
    ],
)
async def test_play_through_the_server_has_the_exact_rates_within_its_interval(
    openspiel_url: str, game: str, seat: int, policy: str, baseline: str, num_games: int
) -> None:
    exact = baselines(game, seat)[baseline]
    async with SessionPool(OpenSpielEnv, openspiel_url, 32) as pool:
        kwargs = {"game_name": game, "agent_player": seat}
        episodes = await play_episodes(pool, make_policy(policy, seed=1), num_games, 1000, reset_kwargs=kwargs)

    won = sum(episode.outcome == "won" for episode in episodes)
    push = sum(episode.outcome == "push" for episode in episodes)
    _, (low, high) = mean_and_interval([episode.total_reward for episode in episodes], Z_999)
    assert low <= exact.mean <= high
    assert _contains(wilson_interval(won, num_games, Z_999), exact.win)
    assert _contains(wilson_interval(push, num_games, Z_999), exact.push)


def _contains(interval: tuple[float, float], value: float) -> bool:
    return interval[0] <= value <= interval[1]
