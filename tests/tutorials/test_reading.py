"""A tutorial's cells are found, laid out, run in order and checked; what a plan names and no cell has is an error."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from nbclient.exceptions import CellExecutionError

from tests.tutorials.cells import cells_of, shape_of
from tests.tutorials.named import LeftOut, Plan, Replaced, Supplied
from tests.tutorials.reading import Reading, read, reading

FLAT = "In [None]:\nimport sysimport os# Add a folderresult = 3if result > 2:    print(result)\n\n## Next\n"
TEXT = """A tutorial.

```python
first = 1
print("first", first)
```
**Output:**
```
first  1
```
```python
second = first + missing
```
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    with reading(tmp_path_factory.mktemp("reader")) as made:
        yield made


def stored(folder: Path, text: str) -> Path:
    path = folder / "000_tutorial.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_lost_line_breaks_are_restored(tmp_path: Path) -> None:
    (cell,) = cells_of(stored(tmp_path, FLAT), {})
    assert cell.code.splitlines() == [
        "import sys", "import os", "# Add a folder", "result = 3", "if result > 2:", "    print(result)",
    ]  # fmt: skip


def test_lost_indentation_is_restored_where_it_is_known_and_texts_may_change(tmp_path: Path) -> None:
    for word in ("a", "b"):
        code = f'for x in "{word}":\nprint(x)'
        (cell,) = cells_of(stored(tmp_path, f"```python\n{code}\n```\n"), {shape_of(code): "01"})
        assert cell.code == f'for x in "{word}":\n    print(x)'


def test_shell_lines_and_files_are_cells_and_plain_text_is_none(tmp_path: Path) -> None:
    text = "<pre style='x'>\nA=1 python -m b</pre>\n```yaml\na: 1\n```\n```\nplain\n```\n"
    assert [cell.language for cell in cells_of(stored(tmp_path, text), {})] == ["bash", "yaml"]


@pytest.mark.process
def test_a_cell_that_fails_fails_the_test_unless_what_it_lacks_is_supplied(reader: Reading, tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match="missing"):
        read(stored(tmp_path, TEXT), Plan(), reader)

    supplied = Supplied(phrase="missing", code="missing = 41", reason="not shown")
    read(stored(tmp_path, TEXT), Plan(supplied=(supplied,)), reader)
    assert reader.value("second") == 42


@pytest.mark.process
def test_a_cell_is_left_out_by_its_content_and_runs_when_that_changes(reader: Reading, tmp_path: Path) -> None:
    path = stored(tmp_path, TEXT)
    digest = cells_of(path, {})[1].digest
    plan = Plan(left_out=(LeftOut(digest=digest, shows="a sum", reason="an example"),))
    read(path, plan, reader)

    with pytest.raises(AssertionError, match="match no cell"):
        read(stored(tmp_path, TEXT.replace("first + missing", "first + 1")), plan, reader)


@pytest.mark.process
def test_what_a_cell_prints_must_be_what_the_tutorial_shows(reader: Reading, tmp_path: Path) -> None:
    text = TEXT.partition("```python\nsecond")[0]
    read(stored(tmp_path, text), Plan(), reader)
    with pytest.raises(AssertionError):
        read(stored(tmp_path, text.replace("first  1", "first 2")), Plan(), reader)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(replaced=(Replaced(phrase="third", by="", reason="an example"),)),
        Plan(supplied=(Supplied(phrase="third", code="", reason="an example"),)),
        Plan(checks={"third": print}),
        Plan(checks={"first": print}),
        Plan(other_output={"000000000000": "an example"}),
    ],
    ids=["replaced", "supplied", "check of no cell", "check of two cells", "output"],
)
@pytest.mark.process
def test_an_entry_that_has_no_cell_is_an_error(reader: Reading, tmp_path: Path, plan: Plan) -> None:
    with pytest.raises(AssertionError, match="match no cell"):
        read(stored(tmp_path, TEXT), plan, reader)


@pytest.mark.process
def test_a_shell_line_that_fails_fails_the_test(reader: Reading, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no_such_module"):
        read(stored(tmp_path, "```bash\npython -m no_such_module\n```\n"), Plan(), reader)
