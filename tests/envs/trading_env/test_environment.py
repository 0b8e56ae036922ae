"""The trading environment behind a server: accounts by hand, seeds, snapshots, errors, and no look-ahead."""

import csv
import math
from random import Random

import pytest

from openenv.core.errors import EnvironmentFault
from tests.envs.extras import require_extra

require_extra("pyarrow", "trading")

import numpy as np

from openenv.envs.trading_env import TradingAction, TradingEnv, players
from openenv.envs.trading_env.server.app import program
from openenv.envs.trading_env.server.settings import Settings, tasks

DATES = [f"2024-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 26)]
FREE = {"commission": 0.0, "slippage": 0.0}


def closes(num_days=300, num_symbols=2, seed=5):
    steps = np.random.default_rng(seed).normal(0.0, 0.02, (num_days, num_symbols))
    return 50.0 * np.exp(np.cumsum(steps, axis=0))


def written(path, prices):
    """A CSV file with the columns date, AA, BB ..."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["date", *(chr(65 + column) * 2 for column in range(prices.shape[1]))])
        rows.writerows([day, *row] for day, row in zip(DATES, prices.tolist(), strict=False))
    return str(path)


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(program.build())


@pytest.fixture(scope="module")
def file_url(module_serving, tmp_path_factory):
    return module_serving(program.build(prices=written(tmp_path_factory.mktemp("prices") / "prices.csv", closes())))


def played(env, player=players.random_order, seed=1, steps=10_000, **reset):
    """The frames of an episode as plain data."""
    rng, results = Random(7), [env.reset(seed=seed, **reset)]
    while not results[-1].done and len(results) <= steps:
        results.append(env.step(player(results[-1].observation, rng)))
    return [(result.reward, result.observation.model_dump()) for result in results]


def test_twenty_episodes_end_after_their_days_and_rewards_add_up_to_the_growth(url):
    with TradingEnv(url) as env:
        for seed in range(20):
            frames = played(env, seed=seed, days=5 + seed, num_symbols=1 + seed % 5)
            state, last = env.state(), frames[-1][1]

            assert len(frames) == 6 + seed
            assert (last["done"], last["possible_actions"], state.step_count) == (True, [], 5 + seed)
            growth = sum(reward for reward, _ in frames[1:])
            assert growth == pytest.approx(math.log(state.equity / 100_000))
            assert state.cash >= 0
            assert min(state.holdings.values()) >= 0


def test_an_order_is_filled_at_the_next_close_and_earns_from_the_one_after(file_url):
    with TradingEnv(file_url) as env:
        first = env.reset(seed=1, days=3, **FREE).observation
        bought = env.step(TradingAction(weights={"AA": 1.0}))
        later = env.step(TradingAction(weights=None))

        assert first.equity == bought.observation.equity == 100_000
        assert bought.reward == 0
        assert env.state().holdings["AA"] == pytest.approx(100_000 / bought.observation.prices["AA"])
        growth = later.observation.prices["AA"] / bought.observation.prices["AA"]
        assert later.reward == pytest.approx(math.log(growth))
        assert later.observation.returns["AA"][-1] == pytest.approx(math.log(growth))


def test_costs_are_paid_as_computed_by_hand(file_url):
    with TradingEnv(file_url) as env:
        env.reset(seed=1, days=3, commission=0.01, slippage=0.02)
        bought = env.step(TradingAction(weights={"AA": 0.5}))
        of_purchase = 1.02 * 1.01 - 1
        equity = 100_000 / (1 + 0.5 * of_purchase)  # half of what is left is bought, and pays its costs
        assert bought.observation.equity == pytest.approx(equity)
        assert bought.observation.weights["AA"] == pytest.approx(0.5)
        state = env.state()
        assert state.costs == pytest.approx(100_000 - equity)
        assert state.turnover == pytest.approx(0.5 * equity / 100_000)

        shares = state.holdings["AA"]
        sold = env.step(TradingAction(weights={}))
        price = sold.observation.prices["AA"]
        assert sold.observation.equity == pytest.approx(state.cash + shares * price * 0.98 * 0.99)
        assert env.state().holdings["AA"] == 0


def test_the_benchmark_is_what_equal_weights_that_are_held_earn(url):
    with TradingEnv(url) as env:
        frames = played(env, players.buy_and_hold, seed=4, days=40)
        state = env.state()

        assert [seen["benchmark_equity"] for _, seen in frames] == pytest.approx([seen["equity"] for _, seen in frames])
        assert (state.benchmark_sharpe, state.benchmark_max_drawdown) == pytest.approx(
            (state.sharpe, state.max_drawdown)
        )


def test_the_state_has_the_figures_of_the_curve(url):
    with TradingEnv(url) as env:
        frames = played(env, players.trend_following, seed=6, days=60)
        state = env.state()
        rewards = np.array([reward for reward, _ in frames[1:]])
        equities = np.array([seen["equity"] for _, seen in frames])

        assert state.sharpe == pytest.approx(rewards.mean() / rewards.std(ddof=1) * math.sqrt(252))
        worst = max(1 - later / equities[: day + 1].max() for day, later in enumerate(equities))
        assert state.max_drawdown == pytest.approx(worst)
        assert 0 < state.max_drawdown < 1


def test_cash_alone_has_no_sharpe_ratio(url):
    with TradingEnv(url) as env:
        env.reset(seed=1, days=3)
        env.step(TradingAction(weights={}))
        env.step(TradingAction(weights={}))

        assert (env.state().sharpe, env.state().max_drawdown, env.state().turnover) == (None, 0.0, 0.0)


@pytest.mark.parametrize("today", [0, 3, 17])
def test_shuffling_the_future_changes_nothing_until_then(today, tmp_path, module_serving):
    prices = closes()
    row = 20 + today  # of the last day that is seen, where the episode begins after a window of 20 days
    shuffled = prices.copy()
    np.random.default_rng(1).shuffle(shuffled[row + 1 :])
    keywords = {"first_date": DATES[20], "last_date": DATES[60], "days": 40, "steps": today}
    episodes = []
    for name, table in (("true", prices), ("shuffled", shuffled)):
        with TradingEnv(module_serving(program.build(prices=written(tmp_path / f"{name}.csv", table)))) as env:
            episodes.append((played(env, **keywords), env.state().model_dump(exclude={"episode_id"})))
            future = played(env, **{**keywords, "steps": today + 1})[-1]
            episodes[-1] += (future,)

    assert episodes[0][:2] == episodes[1][:2]
    assert len(episodes[0][0]) == today + 1
    assert episodes[0][2] != episodes[1][2], "the next day was not shuffled"


@pytest.mark.parametrize("name", tasks())
def test_equal_seeds_give_equal_episodes_also_beside_others(url, name):
    reset = {**tasks()[name], "days": 8}
    with TradingEnv(url) as env, TradingEnv(url) as other, TradingEnv(url) as noise:
        alone = played(env, seed=3, **reset)
        other.reset(seed=3, **reset)
        noise.reset(seed=9)
        rng, beside = Random(7), [(None, other.reset(seed=3, **reset).observation)]
        while not beside[-1][1].done:
            noise.step(TradingAction(weights={"S1": 1.0}))
            result = other.step(players.random_order(beside[-1][1], rng))
            beside.append((result.reward, result.observation))

        assert [(reward, seen.model_dump()) for reward, seen in beside] == alone
        assert played(env, seed=4, **reset) != alone


def test_without_a_seed_the_metadata_names_a_random_one(url):
    with TradingEnv(url) as env:
        firsts = [env.reset().observation for _ in range(2)]
        seeds = [first.metadata["seed"] for first in firsts]

        assert seeds[0] != seeds[1]
        assert env.reset(seed=seeds[0]).observation == firsts[0]


@pytest.mark.parametrize("which", ["url", "file_url"])
def test_a_saved_episode_is_restored_and_its_fork_has_the_same_future(which, request):
    with TradingEnv(request.getfixturevalue(which)) as env:
        played(env, seed=2, steps=5, days=20, max_shares=100.0)
        token, before = env.save(), env.state()
        onward = [env.step(TradingAction(weights=None)).observation for _ in range(5)]
        env.reset(seed=8)
        env.restore(token)

        assert env.state() == before
        (branch,) = env.fork(1)
        with branch:
            for player in (env, branch):
                assert [player.step(TradingAction(weights=None)).observation for _ in range(5)] == onward


def test_an_order_trades_at_most_max_shares(url):
    with TradingEnv(url) as env:
        env.reset(seed=1, days=5, max_shares=10)
        bought = [env.step(TradingAction(weights={"S1": 1.0})) and env.state().holdings["S1"] for _ in range(3)]
        env.step(TradingAction(weights={"S2": 1.0}))
        state = env.state()

        assert bought == pytest.approx([10, 20, 30])
        assert (state.holdings["S1"], state.holdings["S2"]) == pytest.approx((20, 10))
        assert state.cash > 0


def test_purchases_are_cut_where_limited_sales_do_not_pay_for_them(url):
    with TradingEnv(url) as env:
        prices = env.reset(seed=1, days=5).observation.prices
        env.step(TradingAction(weights={"S1": 1.0}))
        most = 100_000 / prices["S1"] / 10
        token = env.save()
        env.reset(seed=1, days=5, max_shares=most)
        for _ in range(3):
            env.step(TradingAction(weights={"S1": 0.5, "S2": 0.5}))
        assert min(env.state().cash, *env.state().holdings.values()) >= 0
        env.restore(token)
        env.step(TradingAction(weights={"S1": 1 / 3, "S2": 1 / 3, "S3": 1 / 3}))
        assert env.state().cash >= 0


def test_weights_that_only_rounding_makes_more_than_one_are_taken(url):
    with TradingEnv(url) as env:
        env.reset(seed=1, **FREE)
        env.step(TradingAction(weights={"S1": 0.3333336, "S2": 0.3333336, "S3": 0.3333336}))

        assert env.state().cash == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"S9": 0.5}, r"weights: 'S9' is not among S1, S2, S3\. Use these symbols only"),
        ({"S1": -0.1}, r"weights\.S1=-0\.1: expected a number from 0 to 1; short sales are not possible"),
        ({"S1": 0.6, "S2": 0.6}, r"weights add up to 1\.2: at most 1 is possible, without credit"),
    ],
)
def test_a_wrong_order_is_an_error_and_the_episode_stays_as_it_was(url, weights, message):
    with TradingEnv(url) as env:
        env.reset(seed=1)
        before = env.state()
        with pytest.raises(EnvironmentFault, match=message):
            env.step(TradingAction(weights=weights))

        assert env.state() == before


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"days": 0}, "days=0: expected a whole number from 1 to 10000"),
        ({"days": True}, "days=True"),
        ({"window": 251}, "window=251"),
        ({"num_symbols": 21}, "num_symbols=21: expected a whole number from 1 to 20"),
        ({"initial_cash": 0}, "initial_cash=0"),
        ({"commission": 0.3}, r"commission=0\.3: expected a number from 0 to 0\.2"),
        ({"slippage": -0.1}, "slippage"),
        ({"max_shares": 0}, "max_shares=0"),
        ({"volatility": "high"}, "volatility='high'"),
        ({"correlation": 1.5}, "correlation=1.5"),
        ({"momentum": -1}, "momentum=-1"),
        ({"drift": 3}, "drift=3"),
        ({"comission": 0.1}, r"'comission' is not known\. Did you mean 'commission'\?"),
        ({"prices": "/etc/passwd"}, "'prices' is not known"),
        ({"first_date": "2024-01-01"}, "first_date: the server plays generated prices"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field_and_the_episode_goes_on(url, keywords, message):
    with TradingEnv(url) as env:
        env.reset(seed=1)
        before = env.state()
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        assert env.state() == before


def test_a_step_before_the_first_reset_is_an_error():
    from openenv.envs.trading_env.server.environment import TradingEnvironment

    environment = TradingEnvironment()
    for call in (lambda: environment.step(TradingAction(weights=None)), environment.save_state):
        with pytest.raises(ValueError, match=r"Call reset\(\) first"):
            call()
    assert environment.state.symbols == []


def test_the_settings_have_a_default_for_each_keyword():
    assert Settings.defaults()["initial_cash"] == 100_000
