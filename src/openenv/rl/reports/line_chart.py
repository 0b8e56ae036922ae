"""Line charts as inline SVG with their titles, so that the report is a single file."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 460, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 34
NUM_COLOURS = 8
"""Classes `s0`, `s1` and so on: the style of the page gives them colours."""

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a chart."""

    name: str
    points: Sequence[Point]
    """x and y; a y that is not finite leaves a gap."""
    faint: bool = False
    """Draw it thin and pale, without a legend: raw values behind a smoothed line."""
    colour: int = 0
    """Index of the colour."""
    intervals: Sequence[tuple[float, float, float]] = ()
    """x, lower and upper end of intervals, which are drawn as upright lines."""


@dataclass(frozen=True, kw_only=True)
class Axes:
    """The ranges of a chart, and their mapping to pixels."""

    x: tuple[float, float]
    y: tuple[float, float]

    def place(self, point: Point) -> Point:
        """The position of a point, in pixels from the top left."""
        across = (point[0] - self.x[0]) / (self.x[1] - self.x[0])
        up = (point[1] - self.y[0]) / (self.y[1] - self.y[0])
        return _LEFT + across * (WIDTH - _LEFT - _RIGHT), HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM)


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str = "step",
    y_range: Point | None = None,
    marks: Sequence[float] = (),
) -> str:
    """A figure, or an empty string without finite points. y_range: of the y axis; None fits the data. marks: x
    at which something is to be seen."""
    points = [point for line in series for point in line.points if math.isfinite(point[1])]
    if not points:
        return ""
    ends = [end for line in series for _, *interval in line.intervals for end in interval]
    axes = Axes(x=_range([x for x, _ in points]), y=y_range or _range([*(y for _, y in points), *ends]))
    named = [line for line in series if not line.faint]
    parts = [
        f"<figure><figcaption>{html.escape(title)}</figcaption>",
        *(_legend(named) if len(named) > 1 else []),
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">',
        *_grid(axes, x_label),
        *(_mark(axes, x) for x in marks if axes.x[0] <= x <= axes.x[1]),
        *(_interval(line, axes, *interval) for line in series for interval in line.intervals),
        *(_path(line, axes) for line in series),
        "</svg></figure>",
    ]
    return "\n".join(parts)


def smoothed(points: Sequence[Point], width: int) -> list[Point]:
    """Each point's y as the mean over the `width` points that end with it."""
    means = []
    for index, (x, _) in enumerate(points):
        window = [y for _, y in points[max(0, index + 1 - width) : index + 1] if math.isfinite(y)]
        means.append((x, sum(window) / len(window) if window else math.nan))
    return means


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    gap = (high - low) * 0.05 or max(abs(high), 1.0) * 0.05
    return (
        (low, high) if low < high and float(low).is_integer() and float(high).is_integer() else (low - gap, high + gap)
    )


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most `most` round numbers from low to high, evenly spaced by 1, 2 or 5 times a power of ten."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [round((first + i) * step, 10) for i in range(count)]


def _grid(axes: Axes, x_label: str) -> list[str]:
    parts = []
    for value in ticks(*axes.y):
        _, y = axes.place((axes.x[0], value))
        parts.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in ticks(*axes.x):
        x, _ = axes.place((value, axes.y[0]))
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 14}" text-anchor="middle">{value:g}</text>')
    parts.append(f'<text x="{WIDTH - _RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{html.escape(x_label)}</text>')
    return parts


def _path(line: Series, axes: Axes) -> str:
    commands, pen_down = [], False
    for point in line.points:
        if not math.isfinite(point[1]):
            pen_down = False
            continue
        x, y = axes.place((point[0], min(max(point[1], axes.y[0]), axes.y[1])))
        commands.append(f"{'L' if pen_down else 'M'}{x:.1f} {y:.1f}")
        pen_down = True
    style = "faint" if line.faint else "line"
    path = f'<path d="{" ".join(commands)}" class="{style} {_colour(line)}"/>'
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="{_colour(line)}"/>' if len(commands) == 1 else ""
    return path + dot


def _interval(line: Series, axes: Axes, x: float, low: float, high: float) -> str:
    (across, bottom), (_, top) = axes.place((x, low)), axes.place((x, high))
    ends = f'x1="{across:.1f}" x2="{across:.1f}" y1="{bottom:.1f}" y2="{top:.1f}"'
    return f'<line {ends} class="interval {_colour(line)}"/>'


def _mark(axes: Axes, x: float) -> str:
    across, _ = axes.place((x, axes.y[0]))
    return f'<line x1="{across:.1f}" x2="{across:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}" class="mark"/>'


def _legend(named: Sequence[Series]) -> list[str]:
    items = [f'<li><span class="swatch {_colour(line)}"></span>{html.escape(line.name)}</li>' for line in named]
    return [f"<ul class=legend>{''.join(items)}</ul>"]


def _colour(line: Series) -> str:
    return f"s{line.colour % NUM_COLOURS}"
