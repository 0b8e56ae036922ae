"""Every part of `make bench` measures both sides, and its results become a table. Run by `make interop`."""

import json
import math

import pytest
from benchmarks import report
from benchmarks.__main__ import PARTS
from benchmarks.peers import Sides
from benchmarks.report import Row

from tests.interop.test_published import PYTHON

pytestmark = pytest.mark.interop

MAX_LINE = 120
ROWS = [
    Row("echo, sync", "/s", ours=600, published=100, floor=6, note="p50 1 / 6 us"),
    Row("echo, async: p99", "us", ours=50, published=100, floor=2.5),
    Row("import", "s", ours=0.4, published=0.1, at_most=0.5),
]


@pytest.mark.parametrize("part", PARTS)
def test_each_row_of_a_part_has_figures_of_both_sides(part):
    rows = PARTS[part][1](Sides(PYTHON, rounds=1, seconds=0.2))

    assert len({row.what for row in rows}) == len(rows)
    assert all(math.isfinite(figure) and figure > 0 for row in rows for figure in (row.ours, row.published))
    assert all(row.floor is not None or row.at_most is not None for row in rows)
    assert all(len(f"| {' | '.join(row.cells)} |") < MAX_LINE for row in rows)


def test_a_row_is_met_from_its_floor_on_and_up_to_its_limit():
    assert [row.ratio for row in ROWS] == [6, 2, 0.25]
    assert [row.is_met for row in ROWS] == [True, False, True]


def test_results_contain_the_rows_and_the_machine(tmp_path):
    report.write({"Steps": ROWS}, tmp_path)

    results = json.loads((tmp_path / "benchmarks.json").read_text())
    assert set(results["machine"]) == {"processor", "cores", "python"}
    assert results["parts"]["Steps"][0] == {
        "what": "echo, sync",
        "unit": "/s",
        "ours": 600,
        "published": 100,
        "floor": 6,
        "note": "p50 1 / 6 us",
        "at_most": None,
        "ratio": 6,
        "is_met": True,
    }


def test_the_last_results_become_a_markdown_table(tmp_path):
    report.write({"Steps": ROWS[:2], "Start": ROWS[2:]}, tmp_path)

    table = [line for line in report.markdown(tmp_path).splitlines() if line.startswith("|")]
    assert table == [
        "| what | ours | published | ratio | floor |",
        "|---|---|---|---|---|",
        "| echo, sync | 600 /s | 100 /s | 6x | 6x |",
        "| echo, async: p99 | 50 us | 100 us | 2x | 2.5x |",
        "| import | 0.4 s | 0.1 s | 0.25x | 0.5 s at most |",
    ]
