"""The shape of the source tree: small folders, and imports without circles."""

from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.structure.record_architecture import PAGE, recorded

ROOT = Path(__file__).parents[2]
MAX_FILES = 13


@pytest.mark.parametrize("tree", ["src/openenv", "tests", "benchmarks"])
def test_no_folder_has_more_than_13_python_files(tree):
    files = Counter(path.parent.relative_to(ROOT).as_posix() for path in (ROOT / tree).rglob("*.py"))
    assert {folder: count for folder, count in files.items() if count > MAX_FILES} == {}


def test_no_module_imports_itself_by_way_of_others():
    graph = grimp.build_graph("openenv", exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_architecture_has_the_tree_and_the_layers_of_the_code():
    assert PAGE.read_text(encoding="utf-8") == recorded(), "run python -m tests.structure.record_architecture"


def test_no_console_takes_a_part_of_a_name_for_an_emoji():
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "src").rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if "Console(" in line and "emoji=False" not in line
    ]
    assert found == [], "notes.py:Notes: would be shown with notes in the place of the class"
