"""Results as a table, as JSON and as a plot."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """One comparison. Figures are medians."""

    what: str
    unit: str
    """`/s` is the more the better; seconds, bytes and all else, the less."""
    ours: float
    peer: float
    target: float
    """Times that ours is to be better."""
    note: str = ""
    """p50 and p99, processor time, the floor: whatever explains the row, ours / peer."""

    @property
    def ratio(self) -> float:
        """How many times better ours is."""
        return self.ours / self.peer if self.unit == "/s" else self.peer / self.ours

    @property
    def is_met(self) -> bool:
        """Whether the ratio is what we want it to be."""
        return self.ratio >= self.target


def show(title: str, rows: Sequence[Row]) -> None:
    """A part's table on the terminal."""
    Console(width=160).print(table(title, rows))


def table(title: str, rows: Sequence[Row]) -> Table:
    """Figures side by side."""
    shown = Table("what", title=title)
    for heading in ("ours", "peer", "ratio", "wanted"):
        shown.add_column(heading, justify="right")
    shown.add_column("ours / peer")
    for row in rows:
        style = "green" if row.is_met else "yellow"
        figures = [_figure(value, row.unit) for value in (row.ours, row.peer)]
        shown.add_row(row.what, *figures, f"[{style}]{row.ratio:.2f}x[/]", f"{row.target:.3g}x", row.note)
    return shown


def _figure(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def write(parts: dict[str, Sequence[Row]]) -> None:
    """`results/benchmarks.json` and `results/benchmarks.png`."""
    RESULTS.mkdir(exist_ok=True)
    body = {
        title: [{**asdict(row), "ratio": row.ratio, "is_met": row.is_met} for row in rows]
        for title, rows in parts.items()
    }
    (RESULTS / "benchmarks.json").write_text(json.dumps(body, indent=1))
    draw([row for rows in parts.values() for row in rows], RESULTS / "benchmarks.png")
    Console().print(f"written: {RESULTS / 'benchmarks.json'}, {RESULTS / 'benchmarks.png'}")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Each row's ratio as a bar, with what is wanted as a mark."""
    # matplotlib takes a second to import
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.4 * len(rows) + 1))
    places = range(len(rows))
    axes.barh(places, [row.ratio for row in rows], color=["tab:green" if row.is_met else "tab:orange" for row in rows])
    axes.plot([row.target for row in rows], places, "k|", markersize=12, label="wanted")
    axes.set_yticks(places, [row.what for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("times better than the peer")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
