"""An agent's Python code, run by smolagents where that is installed."""

import sys

import pytest

from openenv.core.tools import PyExecutor

pytestmark = pytest.mark.finding("B1")


def test_without_smolagents_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "smolagents", None)
    with pytest.raises(ImportError, match="pip install smolagents"):
        PyExecutor()


@pytest.mark.process
def test_programs_share_their_variables_and_errors_are_results():
    executor = PyExecutor(additional_imports=["json"])
    first = executor.run("import json\nx = 20\nprint(json.dumps([x]))\nx + 1")
    failed = executor.run("x // 0")

    assert (first.exit_code, first.stdout) == (0, "[20]\n21")
    assert executor.run("x * 2").stdout == "40"
    assert (failed.exit_code, "division" in failed.stderr) == (1, True)
