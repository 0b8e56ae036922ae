"""Strict YAML."""

from pathlib import Path

import pytest

from openenv.formats.yaml_text import parse_yaml, read_yaml


def _repeated(form: str) -> str:
    """Twenty lines, of which each has the one before nine times."""
    lines = (f"a{n}: &a{n} {form.format(', '.join([f'*a{n - 1}'] * 9))}" for n in range(1, 20))
    return "\n".join(["a0: &a0 {k: 1}", *lines])


@pytest.mark.parametrize(
    ("text", "key", "lines"),
    [
        ("a: 1\nb: 2\na: 3\n", "'a'", "1 and 3"),
        ("trainer:\n  steps: 1\n  lr: 2\n  steps: 3\n", "'steps'", "2 and 4"),
        ("- {x: 1, 'x': 2}\n", "'x'", "1 and 1"),
        ("1: a\n0x1: b\n", "1", "1 and 2"),
        ("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n", "'<<'", "3 and 4"),
    ],
)
@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_a_key_that_is_written_twice_is_an_error_that_names_both_lines(
    tmp_path: Path, text: str, key: str, lines: str
) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match=rf"twice\.yaml: the key {key} is written twice, in lines {lines}\. Keep one"):
        read_yaml(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\nday: 2024-13-45\n", "month must be in 1..12.*line 2"),
        ("a: !!bool maybe\n", "a value cannot be read.*line 1"),
        ("a: " + "9" * 5000, "a value cannot be read.*line 1"),
        ("a: \x00", "unacceptable character"),
        ("[" * 3000, "nested too deep"),
        ("{a: " * 3000, "nested too deep"),
        ("&a [*a]", "its aliases repeat more than"),
        ("&a {b: {<<: *a}}", "its aliases repeat more than"),
        (_repeated("[{}]"), "its aliases repeat more than"),
        (_repeated("{{<<: [{}]}}"), "its aliases repeat more than"),
    ],
)
@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_a_value_that_cannot_be_read_is_an_error_that_names_the_file_and_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"(?s)^odd\.yaml is not YAML.*{reason}"):
        parse_yaml(text, "odd.yaml")


def test_a_mapping_may_replace_keys_that_it_merges_and_be_merged_itself() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: *b, y: 4}\nd: *b\n"

    assert parse_yaml(text, "config") == {
        "a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}, "c": {"x": 3, "y": 4}, "d": {"x": 3, "y": 2},
    }  # fmt: skip


def test_a_file_that_is_not_utf_8_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("description: Caf\xe9\n".encode("latin-1"))

    with pytest.raises(ValueError, match=r"latin\.yaml is not UTF-8 at byte 16: save it with the encoding UTF-8"):
        read_yaml(path)


@pytest.mark.parametrize("text", ["? [a, b]\n: 1\n? [a, b]\n: 2\n", "a: [\n", "a: !!python/object:os.system x\n"])
def test_what_no_safe_yaml_has_is_an_error_with_its_place(text: str) -> None:
    with pytest.raises(ValueError, match=r"config is not YAML(?s:.*)line"):
        parse_yaml(text, "config")
