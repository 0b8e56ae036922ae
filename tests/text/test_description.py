"""Values in words."""

import pytest

from openenv.core.env_server.types import Observation
from openenv.text.description import ObservationDescriber, value_text

CATCH = [[0, 0, 1], [0, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "none"),
        (True, "yes"),
        (3, "3"),
        (0.123456, "0.123"),
        (1e-9, "1e-09"),
        ([], "none"),
        ([1, 2.5], "1 2.5"),
        (["ace", "king"], "ace, king"),
        ([0] * 30, "all 0"),
        ([0] * 7 + [1] + [0] * 30 + [2], "1 at 7, 2 at 38"),
        (list(range(20)), " ".join(map(str, range(20)))),
        (CATCH, "1 at row 0 column 2, 1 at row 2 column 1"),
        ([[1, 2], [3, 4]], "1 2\n3 4"),
        ([["x", ".", "."], [".", ".", "."]], "x at row 0 column 0"),
        ({"hp": 3, "items": ["rope"]}, "hp 3, items rope"),
        ([{"x": 1}, {"x": 2}], "x 1, x 2"),
        ([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}], "x 1, y a\nx 2, y b"),
    ],
)
def test_a_value_becomes_a_few_words(value, words):
    assert value_text(value) == words


class Board(Observation):
    row: int
    cells: str


def test_a_text_of_several_lines_begins_below_its_name():
    assert ObservationDescriber(Board).describe(Board(row=1, cells="A.\n.G")) == "row: 1\ncells:\nA.\n.G"
