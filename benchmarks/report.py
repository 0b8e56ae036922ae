"""Results as a table on the terminal, as Markdown, as JSON and as a plot."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"

MATCH = 1.0
"""The floor of a row that has none of its own: at least as good as the published package."""


@dataclass(frozen=True)
class Row:
    """One comparison. Figures are medians."""

    what: str
    unit: str
    """`/s`: more is better. Seconds, MiB and all others: less is better."""
    ours: float
    published: float
    floor: float | None = None
    """The ratio that ours must reach."""
    note: str = ""
    """p50 and p99, processor time, what the machine allows: ours / published."""
    at_most: float | None = None
    """A limit of ours in place of a ratio, in the row's unit."""

    @property
    def ratio(self) -> float:
        """How many times better ours is."""
        return self.ours / self.published if self.unit == "/s" else self.published / self.ours

    @property
    def is_met(self) -> bool:
        """Whether ours reaches the floor and stays within the limit."""
        is_within = self.at_most is None or self.ours <= self.at_most
        return is_within and (self.floor is None or self.ratio >= self.floor)

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """What a table shows: name, ours, published, ratio and floor."""
        ours, published = (_figure(value, self.unit) for value in (self.ours, self.published))
        return self.what, ours, published, f"{self.ratio:.3g}x", self._wanted()

    def _wanted(self) -> str:
        if self.at_most is not None:
            return f"{self.at_most:g} {self.unit} at most"
        return "" if self.floor is None else f"{self.floor:g}x"


Parts = Mapping[str, Sequence[Row]]


def machine() -> dict[str, str | int]:
    """Return the processor's name, the number of cores, and the Python version."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.machine()
    return {"processor": processor, "cores": os.cpu_count() or 1, "python": platform.python_version()}


def show(title: str, rows: Sequence[Row]) -> None:
    """Print a part's table."""
    shown = Table("what", title=title)
    for heading in ("ours", "published", "ratio", "floor"):
        shown.add_column(heading, justify="right")
    shown.add_column("ours / published")
    for row in rows:
        what, ours, published, ratio, wanted = row.cells
        shown.add_row(what, ours, published, f"[{'green' if row.is_met else 'red'}]{ratio}[/]", wanted, row.note)
    Console(width=160).print(shown)


def write(parts: Parts, folder: Path = RESULTS) -> None:
    """Write `benchmarks.json` and `benchmarks.png` to a folder."""
    folder.mkdir(exist_ok=True)
    body = {
        "machine": machine(),
        "parts": {
            title: [{**asdict(row), "ratio": row.ratio, "is_met": row.is_met} for row in rows]
            for title, rows in parts.items()
        },
    }
    (folder / "benchmarks.json").write_text(json.dumps(body, indent=1) + "\n")
    _draw([row for rows in parts.values() for row in rows], folder / "benchmarks.png")
    Console().print(f"written: {folder / 'benchmarks.json'}, {folder / 'benchmarks.png'}")


def markdown(folder: Path = RESULTS) -> str:
    """Return the last results as a Markdown table. Raises FileNotFoundError where nothing was measured yet."""
    body = json.loads((folder / "benchmarks.json").read_text())
    rows = [
        Row(**{key: row[key] for key in Row.__dataclass_fields__}) for part in body["parts"].values() for row in part
    ]
    on = "{processor}, {cores} cores, Python {python}".format(**body["machine"])
    lines = [f"Medians on: {on}.", "", "| what | ours | published | ratio | floor |", "|---|---|---|---|---|"]
    return "\n".join(lines + [f"| {' | '.join(row.cells)} |" for row in rows])


def _figure(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _draw(rows: Sequence[Row], path: Path) -> None:
    """Draw each row's ratio as a bar, and its floor as a mark."""
    import matplotlib  # takes a second to import

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.3 * len(rows) + 1))
    places = range(len(rows))
    axes.barh(places, [row.ratio for row in rows], color=["tab:green" if row.is_met else "tab:orange" for row in rows])
    marks = [(row.floor, place) for place, row in enumerate(rows) if row.floor is not None]
    if marks:
        axes.plot(*zip(*marks, strict=True), "k|", markersize=10, label="floor")
        axes.legend()
    axes.set_yticks(places, [row.what for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("times better than the published package")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
