"""Reads closing prices from a CSV or Parquet file that the server's command line names."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from openenv.envs.trading_env.server.prices import Floats, Prices

_SYMBOL_COLUMNS = ("tic", "symbol", "ticker")
_PRICE_COLUMNS = ("adj_close", "close")
_SHAPES = (
    "Write one row a day with a column `date` and one column of closing prices for each symbol, or one row for each "
    "day and symbol with the columns `date`, `symbol` (or `tic`) and `close` (or `adj_close`)"
)


def read_prices(path: Path) -> Prices:
    """The prices in a file. Raises ValueError, naming the file, the place and the remedy, for a file that has none."""
    table = _read_table(path)
    if "date" not in table.column_names:
        raise ValueError(f"{path}: there is no column `date` among {', '.join(table.column_names)}. {_SHAPES}.")
    symbol_column = next((name for name in _SYMBOL_COLUMNS if name in table.column_names), None)
    try:
        dates, symbols, closes = _wide(table) if symbol_column is None else _long(table, symbol_column)
    except (ValueError, pa.ArrowException) as error:
        raise ValueError(f"{path}: {error}") from error
    order = sorted(range(len(dates)), key=dates.__getitem__)
    dates, closes = [dates[row] for row in order], closes[order]
    _check(path, dates, symbols, closes)
    return Prices(tuple(symbols), closes, tuple(dates))


def _read_table(path: Path) -> pa.Table:
    readers = {".csv": pyarrow.csv.read_csv, ".parquet": pyarrow.parquet.read_table}
    read = readers.get(path.suffix.lower())
    if read is None:
        raise ValueError(f"prices={str(path)!r}: expected a file that ends in .csv or .parquet.")
    try:
        return read(path)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"prices={str(path)!r} cannot be read: {error}") from error


def _wide(table: pa.Table) -> tuple[list[str], list[str], Floats]:
    """A row a day. Columns that are no numbers are an error."""
    symbols = [name for name in table.column_names if name != "date" and name != "" and not name.startswith("__")]
    if not symbols:
        raise ValueError(f"there is no column of prices. {_SHAPES}.")
    columns = [_numbers(table, name) for name in symbols]
    return _iso_dates(table), symbols, np.stack(columns, axis=1)


def _long(table: pa.Table, symbol_column: str) -> tuple[list[str], list[str], Floats]:
    """A row for each day and symbol. A pair that is missing is NaN, which `_check` refuses."""
    price_column = next((name for name in _PRICE_COLUMNS if name in table.column_names), None)
    if price_column is None:
        raise ValueError(f"there is no column `close` or `adj_close`. {_SHAPES}.")
    names, dates = table.column(symbol_column).cast(pa.string()).to_pylist(), _iso_dates(table)
    symbols, days = sorted({str(name) for name in names}), sorted(set(dates))
    column_of = {symbol: number for number, symbol in enumerate(symbols)}
    row_of = {day: number for number, day in enumerate(days)}
    closes = np.full((len(days), len(symbols)), np.nan)
    for day, name, price in zip(dates, names, _numbers(table, price_column), strict=True):
        place = row_of[day], column_of[str(name)]
        if not np.isnan(closes[place]):
            raise ValueError(f"{name} has two prices on {day}. Remove one of the rows.")
        closes[place] = price
    return days, symbols, closes


def _numbers(table: pa.Table, name: str) -> Floats:
    try:
        column = pc.fill_null(table.column(name).cast(pa.float64()), float("nan"))
    except pa.ArrowException:
        raise ValueError(f"column {name!r} is {table.column(name).type}, not numbers. {_SHAPES}.") from None
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _iso_dates(table: pa.Table) -> list[str]:
    """The dates as text, YYYY-MM-DD."""
    column: Any = table.column("date")
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = pc.utf8_slice_codeunits(column.cast(pa.string()), 0, 10)
    try:
        dates: list[Any] = column.cast(pa.timestamp("s"), safe=False).cast(pa.date32(), safe=False).to_pylist()
    except pa.ArrowException:
        raise ValueError(f"column `date` is {column.type}, not dates. Write them as 2024-12-31.") from None
    if None in dates:
        raise ValueError(f"row {dates.index(None) + 1} has no date. Remove the row.")
    return [day.isoformat() for day in dates]


def _check(path: Path, dates: list[str], symbols: list[str], closes: Floats) -> None:
    for earlier, later in pairwise(dates):
        if earlier == later:
            raise ValueError(f"{path}: {later} has two rows. Remove one of them.")
    wrong = np.argwhere(~(np.isfinite(closes) & (closes > 0)))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            f"{path}: {symbols[column]} has the price {closes[row, column]} on {dates[row]}, {len(wrong)} such places "
            "in all. Each symbol needs a price above 0 on each day: fill the gap, or remove the day or the symbol."
        )
