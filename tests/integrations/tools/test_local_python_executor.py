"""An agent's Python code, run by smolagents where that is installed."""

import sys

import pytest

from openenv.integrations.tools import PyExecutor

pytestmark = pytest.mark.finding("every public name of the published package exists here")


def test_without_smolagents_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "smolagents", None)
    with pytest.raises(ImportError, match="pip install smolagents"):
        PyExecutor()


@pytest.mark.process
def test_programs_share_their_variables_and_errors_are_results():
    executor = PyExecutor(additional_imports=["json"])
    first = executor.run("import json\nx = 20\nprint(json.dumps([x]))\nx + 1")
    failed = executor.run("x // 0")

    assert (first.exit_code, first.stdout) == (0, "[20]\n\n21")
    assert executor.run("x * 2").stdout == "40"
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert failed.stderr.startswith("Traceback (most recent call last):\n")
    assert failed.stderr.endswith("ZeroDivisionError: integer division or modulo by zero\n")
    assert "site-packages" not in failed.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("code", "stdout"),
    [("'a'", '"a"'), ("True", "true"), ("{1, 2}", "{1, 2}"), ("print('a')", "a\n"), ("None", "")],
)
def test_the_value_of_the_last_line_is_json_where_that_can_be(code, stdout):
    assert PyExecutor().run(code).stdout == stdout


@pytest.mark.process
def test_a_program_has_two_functions_to_report_with():
    executor = PyExecutor()
    handled = executor.run("try:\n    1 // 0\nexcept Exception:\n    text = format_exc()\ntext")

    assert "ZeroDivisionError" in handled.stdout
    assert executor.run("print(safe_json_dumps({'a': {1}}))").stdout == '{"a": "{1}"}\n'
