"""The SQLite database of a company's calendars: its tables, its contents as values, and queries that only read."""

import logging
import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import lru_cache
from itertools import islice
from typing import Any

from fastmcp.exceptions import ToolError

SCHEMA = """
CREATE TABLE people (
    person TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    time_zone TEXT NOT NULL,
    work_start TEXT NOT NULL,
    work_end TEXT NOT NULL
);
CREATE TABLE calendars (
    calendar TEXT PRIMARY KEY,
    owner TEXT NOT NULL REFERENCES people
);
CREATE TABLE events (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    calendar TEXT NOT NULL REFERENCES calendars,
    title TEXT NOT NULL,
    location TEXT NOT NULL,
    starts_at TEXT NOT NULL,
    ends_at TEXT NOT NULL CHECK (ends_at > starts_at),
    minutes INTEGER AS (
        (substr(ends_at, 12, 2) - substr(starts_at, 12, 2)) * 60 + substr(ends_at, 15, 2) - substr(starts_at, 15, 2)
        + 1440 * (substr(ends_at, 1, 10) > substr(starts_at, 1, 10))
    ) STORED
);
CREATE TABLE attendees (
    event_id INTEGER NOT NULL REFERENCES events ON DELETE CASCADE,
    person TEXT NOT NULL REFERENCES people,
    response TEXT NOT NULL CHECK (response IN ('needs_action', 'accepted', 'tentative', 'declined')),
    PRIMARY KEY (event_id, person)
);
"""
"""Times are text such as `2026-03-02 09:30`, in UTC. An event lasts at most a day."""

LONGEST_QUERY = 2_000
MOST_ROWS = 100
MOST_CHARACTERS = 20_000
"""Of all values that a query returns."""
_MOST_INSTRUCTIONS = 200_000
"""Of SQLite's virtual machine, for a query: an equal query ends at the same place on every machine."""
_INSTRUCTIONS_A_CALL = 1_000
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 4_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: LONGEST_QUERY,
    sqlite3.SQLITE_LIMIT_COLUMN: 40,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
_FUNCTIONS = frozenset(
    {
        "abs", "avg", "coalesce", "count", "dense_rank", "first_value", "glob", "group_concat", "ifnull",
        "iif", "instr", "lag", "last_value", "lead", "length", "like", "lower", "ltrim", "max", "min",
        "nullif", "rank", "replace", "round", "row_number", "rtrim", "sign", "substr", "substring", "sum",
        "total", "trim", "typeof", "upper",
    }
)  # fmt: skip
"""None of them reads a clock, draws at random, or makes a text that is longer than what it is given."""


class Refused(ToolError):
    """A tool call that cannot be done. The message names the field, its value, and the remedy; nothing has changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, log_level=logging.DEBUG)  # wrong calls are part of play, not faults of the server


def database(image: bytes | None = None) -> sqlite3.Connection:
    """A database in memory, which any thread may use, one at a time.

    image: what `serialize` returned; None for empty tables.
    """
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    connection.deserialize(_empty_image() if image is None else image)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


@lru_cache(maxsize=1)
def _empty_image() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        return connection.serialize()


def event_contents(connection: sqlite3.Connection) -> dict[int, tuple[Any, ...]]:
    """Each event's fields and responses, by its id."""
    fields = {
        row[0]: row[1:]
        for row in connection.execute("SELECT event_id, calendar, title, location, starts_at, ends_at FROM events")
    }
    responses: dict[int, list[tuple[str, str]]] = {event_id: [] for event_id in fields}
    for event_id, *response in connection.execute("SELECT event_id, person, response FROM attendees ORDER BY 1, 2"):
        responses[event_id].append(tuple(response))
    return {event_id: (*values, tuple(responses[event_id])) for event_id, values in fields.items()}


def read_only_query(connection: sqlite3.Connection, sql: str) -> dict[str, Any]:
    """Columns and rows of a SELECT, and whether rows were left out. Raises Refused.

    It runs on a copy: whatever the query does, the database stays as it is.
    """
    copy = database(connection.serialize())
    try:
        for limit, value in _LIMITS.items():
            copy.setlimit(limit, value)
        remaining = iter(range(_MOST_INSTRUCTIONS // _INSTRUCTIONS_A_CALL))
        copy.set_progress_handler(lambda: next(remaining, None) is None, _INSTRUCTIONS_A_CALL)
        copy.set_authorizer(_authorize)
        cursor = copy.execute(sql)
        columns = [column[0] for column in cursor.description or ()]
        rows = list(_shown_rows(islice(cursor, MOST_ROWS + 1)))
    except Refused:
        raise
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        raise Refused(f"sql: {_reason(error)}") from error
    finally:
        copy.close()
    return {"columns": columns, "rows": rows[:MOST_ROWS], "has_more": len(rows) > MOST_ROWS}


def _authorize(action: int, first: str | None, second: str | None, *_: Any) -> int:
    """Allow reading, recursion, and the known functions; deny all else, such as writing, ATTACH and PRAGMA."""
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _shown_rows(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[Any]]:
    """The rows as JSON. Raises Refused when they are too long."""
    characters = 0
    for row in rows:
        values = [value if isinstance(value, str | int | None) else _as_text(value) for value in row]
        characters += sum(len(str(value)) for value in values)
        if characters > MOST_CHARACTERS:
            raise Refused(f"sql: the rows have more than {MOST_CHARACTERS} characters. Select fewer columns or rows.")
        yield values


def _as_text(value: float | bytes) -> float | str:
    """A number as it is, if JSON has it; bytes as hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    return value if math.isfinite(value) else str(value)


def _reason(error: Exception) -> str:
    text = str(error)
    if text == "interrupted":
        return "the query takes too long. Join fewer tables, or limit the recursion."
    if "authoriz" in text or "prohibited" in text:
        names = ", ".join(sorted(_FUNCTIONS))
        return f"{text}. Write one SELECT over people, calendars, events and attendees; functions: {names}."
    if "one statement" in text:
        return "write one statement."
    return f"{text}. The description of the tool has the tables."
