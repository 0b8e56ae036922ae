"""Every part of `make bench` measures both sides. Run by `make interop`."""

import math

import pytest
from benchmarks.__main__ import PARTS
from benchmarks.peers import Sides

from tests.interop.test_published import PYTHON

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("part", PARTS)
def test_each_row_of_a_part_has_figures_of_both_sides(part):
    rows = PARTS[part][1](Sides(PYTHON, rounds=1, seconds=0.2))
    assert len({row.what for row in rows}) == len(rows)
    assert all(math.isfinite(figure) and figure > 0 for row in rows for figure in (row.ours, row.peer))
