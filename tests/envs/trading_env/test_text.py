"""The text interface of the trading environment."""

from random import Random

import pytest

from openenv.envs.trading_env import TradingAction, TradingObservation, TradingText
from openenv.envs.trading_env.text import move

TEXT = TradingText(TradingAction, TradingObservation)
MENU = {"hold": None, "cash": {}, "equal": {"S1": 0.5, "S2": 0.5}, "S1": {"S1": 1.0}, "S2": {"S2": 1.0}}
SEEN = TradingObservation(
    day=3,
    days=10,
    prices={"S1": 10.0, "S2": 20.0},
    returns={"S1": [0.01, -0.01] * 5 + [0.01] * 5, "S2": [0.0] * 15},
    weights={"S1": 0.47, "S2": 0.0},
    equity=1.0,
    benchmark_equity=1.0,
    possible_actions=[{"weights": weights} for weights in MENU.values()],
    action_names=list(MENU),
)


def test_moves_are_described_in_standard_deviations():
    assert TEXT.describe(SEEN) == "S1: held 50, week 2, trend 1\nS2: held 0, week 0, trend 0"
    assert move([0.03, 0.01], 2) == pytest.approx(0.04 / (0.01 * 2**0.5))


def test_ready_made_orders_are_replies():
    assert list(TEXT.replies(SEEN)) == list(MENU)
    for name, weights in MENU.items():
        assert TEXT.parse(f"I say {name}.", SEEN) == TradingAction(weights=weights)
        assert TEXT.wording(TradingAction(weights=weights), SEEN) == name
    assert "Reply with one of these: hold, cash, equal, S1, S2." in TEXT.instructions(SEEN)


def test_weights_as_json_are_replies():
    action = TradingAction(weights={"S1": 0.25, "S2": 0.5})

    assert TEXT.parse('Buy {"weights": {"S1": 0.25, "S2": 0.5}} now', SEEN) == action
    assert TEXT.parse(TEXT.wording(action, SEEN), SEEN) == action


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("sell", "names none of the actions"),
        ('{"weights": {"S3": 0.5}}', "the weights of S1, S2 are numbers from 0, together at most 1"),
        ('{"weights": {"S1": -0.5}}', "numbers from 0"),
        ('{"weights": {"S1": 0.7, "S2": 0.7}}', "together at most 1"),
        ('{"weights": {"S1": "much"}}', "weights"),
        ("{", "no JSON object"),
    ],
)
def test_a_reply_that_is_no_order_names_its_problem(reply, problem):
    assert TEXT.parse(reply, SEEN) is None
    assert problem in TEXT.problem(reply, SEEN)


def test_random_replies_are_the_ready_made_orders():
    replies = {TEXT.random_reply(SEEN, Random(seed))[0] for seed in range(60)}

    assert replies == set(MENU)
