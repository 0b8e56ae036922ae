"""Runs the tests of agents, and prints the table of docs/agents.md: `python -m tests.agents`."""

import sys
from collections import defaultdict
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

_ROOT = Path(__file__).parents[2]
_FOLDERS = ("tests/agents", "tests/rl/agents")


class AgentsTable:
    """A pytest plugin that notes which cells have passed."""

    def __init__(self) -> None:
        self._cells: dict[str, dict[str, str]] = defaultdict(dict)
        self._of_test: dict[str, tuple[str, list[str]]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note which tests are cells."""
        for item in items:
            for marker in item.iter_markers("agent_cell"):
                self._of_test[item.nodeid] = marker.args

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a cell."""
        if report.nodeid in self._of_test and (report.when == "call" or not report.passed):
            agent, properties = self._of_test[report.nodeid]
            for name in properties:
                self._cells[agent][name] = report.outcome

    def pytest_terminal_summary(self) -> None:
        """Print the table."""
        names = list(dict.fromkeys(name for cells in self._cells.values() for name in cells))
        table = Table("agent", *names, title="What was tried with agents of each kind, token by token")
        for agent, cells in self._cells.items():
            table.add_row(agent, *(cells.get(name, "") for name in names))
        Console(width=150).print(table)


sys.exit(pytest.main(["-n", "0", "-q", *(str(_ROOT / folder) for folder in _FOLDERS)], plugins=[AgentsTable()]))
