"""Prices: the statistics of generated ones, files and their errors, and the choice of days in a file."""

import pytest

from openenv.core.errors import EnvironmentFault
from tests.envs.extras import require_extra

require_extra("pyarrow", "trading")

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from openenv.envs.trading_env import TradingAction, TradingEnv
from openenv.envs.trading_env.server import app, plot
from openenv.envs.trading_env.server.price_file import read_prices
from openenv.envs.trading_env.server.prices import generate_prices

MARKET = {"volatility": 0.3, "drift": 0.06, "correlation": 0.35}
DATES = [f"2024-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 26)]
LONG = {
    "date": ["2024-01-02", "2024-01-03", "2024-01-02", "2024-01-03"],
    "tic": ["MSFT", "MSFT", "AAPL", "AAPL"],
    "close": [300.0, 303.0, 100.0, 102.0],
}


def log_returns(seed, momentum=0.0, num_days=2500):
    closes = generate_prices(seed, num_days, 4, momentum=momentum, **MARKET).closes
    assert closes.shape == (num_days, 4)
    return np.diff(np.log(closes), axis=0)


def autocorrelation(series, lag):
    centred = series - series.mean()
    return (centred[lag:] * centred[:-lag]).mean() / series.var()


def columns(momentum=0.0):
    return [column for seed in range(20) for column in log_returns(seed, momentum).T]


def test_generated_returns_have_fat_tails():
    kurtosis = [(((one - one.mean()) / one.std()) ** 4).mean() for one in columns()]

    assert 4.0 < np.median(kurtosis) < 12.0, "3 is that of a normal distribution, 5 to 15 those of stocks"


def test_generated_returns_have_clusters_of_volatility_but_no_autocorrelation():
    of_sizes = [np.mean([autocorrelation(abs(one), lag) for lag in range(1, 21)]) for one in columns()]
    of_returns = [autocorrelation(one, 1) for one in columns()]

    assert 0.05 < np.mean(of_sizes) < 0.25
    assert abs(np.mean(of_returns)) < 0.02


def test_generated_returns_have_the_volatility_drift_and_correlation_that_were_asked_for():
    series = [log_returns(seed) for seed in range(40)]
    yearly = [column.std() * np.sqrt(252) for one in series for column in one.T]
    correlations = [np.corrcoef(one.T)[np.triu_indices(4, 1)].mean() for one in series]

    assert np.mean(yearly) == pytest.approx(0.3 * 1.05, rel=0.06), "the mean of 0.7 and 1.4 times 0.3"
    assert np.mean([one.mean() * 252 for one in series]) == pytest.approx(0.06, abs=0.03)
    assert np.mean(correlations) == pytest.approx(0.35, abs=0.04)


def test_momentum_makes_returns_follow_those_before_and_leaves_their_size():
    def follows(momentum):
        weeks = [one[:2495].reshape(-1, 5).sum(axis=1) for one in columns(momentum)]
        return np.mean([autocorrelation(week, 1) for week in weeks])

    assert follows(0.0) == pytest.approx(0.0, abs=0.02)
    assert follows(0.2) > 0.08
    assert follows(0.4) > 0.25
    sizes = [np.mean([column.std() for column in columns(momentum)]) for momentum in (0.0, 0.4)]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.05)


def test_equal_seeds_generate_equal_prices_and_negative_seeds_differ_from_positive_ones():
    tables = [generate_prices(seed, 30, 3, momentum=0.1, **MARKET).closes for seed in (1, 1, -1, 2)]

    assert (tables[0] == tables[1]).all()
    assert not (tables[0] == tables[2]).any()
    assert not (tables[0] == tables[3]).any()


@pytest.fixture
def wide(tmp_path):
    """A CSV file of 300 days and two symbols, newest first."""
    closes = np.exp(np.cumsum(np.random.default_rng(1).normal(0, 0.02, (300, 2)), axis=0))
    table = pa.table({"date": DATES, "AA": closes[:, 0], "BB": closes[:, 1]})
    path = tmp_path / "prices.csv"
    pyarrow.csv.write_csv(table.sort_by([("date", "descending")]), path)
    return path


def test_a_wide_file_is_sorted_by_date(wide):
    prices = read_prices(wide)

    assert (prices.symbols, prices.dates) == (("AA", "BB"), tuple(DATES))
    assert prices.closes.shape == (300, 2)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("as_type", [pa.string(), pa.date32(), pa.timestamp("ns")])
def test_a_long_file_has_a_row_for_each_day_and_symbol(ending, as_type, tmp_path):
    table = pa.table(LONG)
    table = table.set_column(0, "date", table["date"].cast(pa.date32()).cast(as_type))
    path = tmp_path / f"prices.{ending}"
    (pyarrow.csv.write_csv if ending == "csv" else pyarrow.parquet.write_table)(table, path)
    prices = read_prices(path)

    assert (prices.symbols, prices.dates) == (("AAPL", "MSFT"), ("2024-01-02", "2024-01-03"))
    assert prices.closes.tolist() == [[100.0, 300.0], [102.0, 303.0]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"AA": [1.0]}, "there is no column `date` among AA"),
        ({"date": ["2024-01-02"]}, "there is no column of prices"),
        ({"date": ["2024-01-02"], "tic": ["A"]}, "there is no column `close`"),
        ({"date": ["2024-01-02"], "AA": ["high"]}, "column 'AA' is string, not numbers"),
        ({"date": ["soon"], "AA": [1.0]}, "not dates"),
        ({"date": ["2024-01-02", "2024-01-02"], "AA": [1.0, 2.0]}, "2024-01-02 has two rows"),
        ({"date": ["2024-01-02"], "AA": [0.0]}, r"AA has the price 0\.0 on 2024-01-02"),
        ({"date": ["2024-01-02", "2024-01-03"], "AA": [1.0, None]}, "AA has the price nan on 2024-01-03"),
        ({**LONG, "date": ["2024-01-02"] * 4}, "MSFT has two prices on 2024-01-02"),
        ({key: column[:3] for key, column in LONG.items()}, "AAPL has the price nan on 2024-01-03, 1 such places"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_without_prices_is_an_error_that_names_the_place(table, message, ending, tmp_path):
    path = tmp_path / f"prices.{ending}"
    (pyarrow.csv.write_csv if ending == "csv" else pyarrow.parquet.write_table)(pa.table(table), path)

    with pytest.raises(ValueError, match=message) as raised:
        read_prices(path)
    assert str(path) in str(raised.value)


def test_another_ending_and_a_missing_file_are_errors(tmp_path):
    with pytest.raises(ValueError, match=r"expected a file that ends in \.csv or \.parquet"):
        read_prices(tmp_path / "prices.xlsx")
    with pytest.raises(ValueError, match="cannot be read"):
        read_prices(tmp_path / "prices.csv")


def test_episodes_of_a_file_lie_between_the_dates_and_at_places_of_their_seeds(wide, serving):
    with TradingEnv(serving(app.program.build(prices=str(wide)))) as env:
        firsts = {env.reset(seed=seed, days=30).observation.date for seed in range(20)}
        assert len(firsts) > 10
        assert env.reset(seed=1).observation.days == 250
        for seed in range(10):
            first = env.reset(seed=seed, days=10, first_date="2024-03-04", last_date="2024-03-20").observation
            assert "2024-03-04" <= first.date <= "2024-03-10"
        result = env.reset(seed=1, first_date="2024-03-04", last_date="2024-03-20", symbols=["BB"])
        assert result.observation.days == 16
        assert list(result.observation.prices) == env.state().symbols == ["BB"]
        while not result.done:
            result = env.step(TradingAction(weights={"BB": 1.0}))
        assert result.observation.date == "2024-03-20"


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"days": 280}, r"the file has room for 279 days, from 2024-01-01 to 2024-12-25"),
        ({"first_date": "2025-01-01"}, "has room for 0 days"),
        ({"last_date": "2024-01-03"}, "has room for 0 days"),
        ({"first_date": "soon"}, "first_date='soon': expected a date such as '2024-12-31'"),
        ({"last_date": 3}, "last_date=3: expected a date"),
        ({"symbols": ["CC"]}, "symbols: 'CC' is not among AA, BB"),
        ({"symbols": []}, "expected a list of different symbols"),
        ({"symbols": ["AA", "AA"]}, "expected a list of different symbols"),
        ({"momentum": 0.1}, "momentum: the server plays the prices of a file"),
    ],
)
def test_a_wrong_choice_of_a_files_days_is_an_error(wide, serving, keywords, message):
    with TradingEnv(serving(app.program.build(prices=str(wide)))) as env:
        env.reset(seed=1)
        before = env.state()
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        assert env.state() == before


def test_an_episode_is_drawn(wide, tmp_path):
    pytest.importorskip("matplotlib")
    for number, more in enumerate((["--player", "random"], ["--prices", str(wide)])):
        path = tmp_path / f"{number}.png"
        plot.main(["--reset", '{"days": 15}', "--out", str(path), *more])

        assert path.read_bytes()[:4] == b"\x89PNG"
        assert path.stat().st_size > 10_000
