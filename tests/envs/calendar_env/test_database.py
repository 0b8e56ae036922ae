"""Queries of the calendars' database: they read, and can do nothing else."""

from random import Random

import pytest

from tests.envs.extras import require_extra

require_extra("fastmcp", "calendar")

from openenv.envs.calendar_env.server import database
from openenv.envs.calendar_env.server.database import Refused, event_contents, read_only_query
from openenv.envs.calendar_env.server.world import make_world

LONG_JOIN = "SELECT count(*) FROM events a, events b, events c, events d"
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c"
DOUBLING = "WITH RECURSIVE c(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM c) SELECT max(length(s)) FROM c"


@pytest.fixture
def connection():
    company = make_world(Random(1), 3).company
    yield company.connection
    company.connection.close()


def test_a_query_returns_columns_and_rows_with_the_minutes_of_each_event(connection):
    found = read_only_query(connection, "SELECT title, minutes FROM events WHERE starts_at < '2100' ORDER BY event_id")

    assert found["columns"] == ["title", "minutes"]
    assert len(found["rows"]) == len(event_contents(connection))
    assert {minutes for _, minutes in found["rows"]} == {30, 60, 90}
    assert not found["has_more"]


def test_an_event_across_midnight_has_its_minutes(connection):
    connection.execute(
        "INSERT INTO events (calendar, title, location, starts_at, ends_at) "
        "SELECT calendar, 'Night', '', '2026-03-02 23:30', '2026-03-03 00:45' FROM calendars LIMIT 1"
    )

    assert read_only_query(connection, "SELECT minutes FROM events WHERE title = 'Night'")["rows"] == [[75]]


def test_rows_beyond_the_first_hundred_are_left_out_and_long_rows_refused(connection):
    found = read_only_query(connection, "SELECT a.event_id FROM events a, events b")
    assert (len(found["rows"]), found["has_more"]) == (100, True)
    with pytest.raises(Refused, match=r"more than 20000 characters\. Select fewer columns or rows"):
        read_only_query(connection, "SELECT a.*, b.*, c.*, d.* FROM events a, events b, events c, events d")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM events",
        "DELETE FROM events WHERE event_id = ?",
        "UPDATE events SET title = 'x'",
        "INSERT INTO people VALUES ('x', 'x', 'x', 'x', 'x') RETURNING *",
        "REPLACE INTO calendars VALUES ('x', 'x')",
        "WITH x AS (SELECT 1) DELETE FROM events",
        "DROP TABLE events",
        "CREATE TABLE t (x)",
        "CREATE TEMP TABLE t (x)",
        "CREATE TRIGGER t AFTER DELETE ON events BEGIN SELECT 1; END",
        "ALTER TABLE events ADD x",
        "REINDEX",
        "ANALYZE",
        "VACUUM",
        "BEGIN",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "SELECT * FROM pragma_database_list",
        "SELECT 1; DELETE FROM events",
    ],
)
def test_nothing_is_written(connection, sql):
    before = event_contents(connection)
    with pytest.raises(Refused, match=r"sql: .*(Write one SELECT over|one statement)"):
        read_only_query(connection, sql)

    assert event_contents(connection) == before


@pytest.mark.parametrize("sql", ["ATTACH '{path}' AS x", "VACUUM INTO '{path}'", "ATTACH 'file:{path}?mode=rwc' AS x"])
def test_no_file_is_opened(connection, sql, tmp_path):
    path = tmp_path / "other.db"
    with pytest.raises(Refused):
        read_only_query(connection, sql.format(path=path))

    assert not path.exists()


@pytest.mark.parametrize(
    "function",
    ["load_extension('x')", "random()", "randomblob(9)", "zeroblob(9)", "printf('%9c', 'x')", "datetime('now')",
     "CURRENT_TIMESTAMP", "sqlite_version()", "fts3_tokenizer('simple')", "hex(x'00')", "json_group_array(1)"],
)  # fmt: skip
def test_other_functions_than_those_that_are_listed_are_refused(connection, function):
    with pytest.raises(Refused, match=r"sql: not authorized to use function.*functions: abs, avg, coalesce"):
        read_only_query(connection, f"SELECT {function}")


@pytest.mark.parametrize("sql", [ENDLESS, LONG_JOIN, f"{ENDLESS} LIMIT 1", "SELECT 1 WHERE EXISTS (" + ENDLESS + ")"])
def test_a_query_that_takes_too_long_ends(connection, sql):
    with pytest.raises(Refused, match=r"takes too long\. Join fewer tables, or limit the recursion"):
        read_only_query(connection, sql)


def test_a_query_ends_after_so_many_instructions_on_every_machine(connection, monkeypatch):
    counted = ENDLESS.replace("FROM c)", "FROM c WHERE n < 1000)")
    assert read_only_query(connection, counted)["rows"] == [[1000]]
    monkeypatch.setattr(database, "_MOST_INSTRUCTIONS", 2_000)
    with pytest.raises(Refused, match="takes too long"):
        read_only_query(connection, counted)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (DOUBLING, "too big"),
        ("SELECT " + "1," * 100 + "1", "too many columns"),
        ("SELECT " + "NOT " * 60 + "1", "too large"),
        ("SELECT 1" + " UNION SELECT 1" * 20, "too many terms"),
        ("SELECT " + "1 + " * 900 + "1", "(too large|too long|too big)"),
        ("SELECT ?", "bindings"),
        ("SELECT", "incomplete input"),
        ("SELECT x FROM events", "no such column: x"),
        ("SELECT '\x00'", "null character"),
        ("SELECT '\ud800'", "surrogates"),
        ("SELECT CAST(x'ff' AS TEXT)", "UTF-8"),
    ],
)
def test_other_queries_that_cannot_be_run_are_refused_with_their_reason(connection, sql, message):
    with pytest.raises(Refused, match=f"sql: .*{message}"):
        read_only_query(connection, sql)


def test_every_value_is_json(connection):
    found = read_only_query(connection, "SELECT x'00ff', 1e999, -1e999, NULL, 0.5, 9223372036854775807")

    assert found["rows"] == [["00ff", "inf", "-inf", None, 0.5, 9223372036854775807]]
