"""Line charts in a report, which is a single file: their data, and the script that draws them, that of the pages."""

import base64
import hashlib
import html
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from openenv import web
from openenv.formats.json_text import json_text

_ASSETS = Path(web.__file__).with_name("assets")
_OWN_SCRIPT = Path(__file__).with_name("report.js")

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a chart."""

    name: str
    points: Sequence[Point]
    """x and y; a y that is not finite leaves a gap."""
    intervals: Sequence[tuple[float, float, float]] = ()
    """x, lower and upper end of intervals, which are drawn as upright lines."""


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str = "step",
    y_range: Point | None = None,
    marks: Sequence[float] = (),
    smoothing: int = 1,
) -> str:
    """A figure, or an empty string without finite points.

    Args:
        title: Its caption.
        series: Its lines.
        x_label: What x is.
        y_range: Of the y axis; None fits the data.
        marks: x at which something is to be seen.
        smoothing: Points of which a line shows the mean, with the points themselves behind it.
    """
    if not any(math.isfinite(y) for line in series for _, y in line.points):
        return ""
    data = {
        "title": title, "xLabel": x_label, "yRange": y_range, "marks": marks, "smoothing": smoothing,
        "series": [{**asdict(line), "points": [_point(*point) for point in line.points]} for line in series],
    }  # fmt: skip
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f'<div data-chart="{html.escape(json_text(data))}"></div></figure>'
    )


def chart_style() -> str:
    """The style of charts."""
    return (_ASSETS / "chart.css").read_text(encoding="utf-8")


@cache
def chart_script() -> str:
    """The script that draws a report's charts: the modules of the pages, without their imports, as one."""
    files = (_ASSETS / "common.js", _ASSETS / "chart.js", _OWN_SCRIPT)
    modules = "".join(file.read_text(encoding="utf-8") for file in files)
    return re.sub(r"^import .*\n|^export ", "", modules, flags=re.MULTILINE)


def report_policy() -> str:
    """The content security policy of a report: it runs that script, and no other, and loads nothing."""
    digest = base64.b64encode(hashlib.sha256(chart_script().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _point(x: float, y: float) -> tuple[float, float | None]:
    return x, y if math.isfinite(y) else None
