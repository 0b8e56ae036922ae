"""A table of the tools of others that work with this package, each as its tests used it.

`make integrations` loads this as a pytest plugin. A test is a row by
`@pytest.mark.integration("TRL", "GRPOTrainer on blackjack", package="trl")`; `record_property("figure", "0.1 to 0.6")`
adds what it measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

import pytest
from rich.console import Console
from rich.table import Table

Record = Callable[[str, object], None]
"""The type of pytest's fixture `record_property`."""


@dataclass
class Row:
    """A test of the table."""

    tool: str
    what: str
    against: str
    """Package and version; empty where the peer is a format, or a server that the test starts."""
    figure: str = ""
    outcome: str = ""


_rows: dict[str, Row] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that are rows."""
    chosen = [item for item in items if item.get_closest_marker("integration") is not None]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
    for item in chosen:
        for marker in item.iter_markers("integration"):
            tool, what = marker.args
            package = marker.kwargs.get("package")
            item.user_properties.append(("row", (tool, what, f"{package} {version(package)}" if package else "")))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the outcome and the figures of each test."""
    if report.when != "call" and report.passed:
        return
    for name, value in report.user_properties:
        if name == "row":
            _rows.setdefault(report.nodeid, Row(*value)).outcome = report.outcome
    figures = [value for name, value in report.user_properties if name == "figure"]
    if report.skipped and isinstance(report.longrepr, tuple):
        figures = [report.longrepr[2]]
    if report.nodeid in _rows:
        _rows[report.nodeid].figure = ", ".join(figures)


def pytest_terminal_summary() -> None:
    """Print the table."""
    table = Table("tool", "what ran", "against", "figure", "outcome", title="In the tools people already use")
    for row in sorted(_rows.values(), key=lambda row: (row.tool, row.what)):
        colour = {"passed": "green", "failed": "red"}.get(row.outcome, "yellow")
        table.add_row(row.tool, row.what, row.against, row.figure, f"[{colour}]{row.outcome}")
    Console(width=150).print(table)
