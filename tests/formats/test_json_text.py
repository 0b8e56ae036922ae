"""Strict JSON, and files of JSON lines."""

import json
import math
from pathlib import Path

import pytest

from openenv.formats.json_text import json_lines, json_text, object_of


def test_numbers_that_json_does_not_have_are_null() -> None:
    written = json_text({"mean": math.nan, "interval": (-math.inf, math.inf), "n": [{"x": 1.5}]})

    assert json.loads(written, parse_constant=pytest.fail) == {
        "mean": None,
        "interval": [None, None],
        "n": [{"x": 1.5}],
    }


def test_a_value_that_json_cannot_have_is_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        json_text({"names": {1, 2}})


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
@pytest.mark.finding("a line feed alone ends a line")
def test_a_line_feed_alone_ends_a_line(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "lines.jsonl"
    lines = [json_text({"reply": f"a{separator}b"}, ensure_ascii=False), json_text({"reply": "c"})]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    assert json_lines(path) == lines


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ('{"a": 1}', True),
        ('{"a": ', False),
        ("[1]", False),
        ("", False),
        ('{"a":' * 100_000, False),
        (f'{{"a": {"9" * 5000}}}', False),
    ],
)
def test_a_line_that_was_cut_off_or_has_no_end_is_no_object(line: str, whole: bool) -> None:
    assert (object_of(line) is not None) == whole
