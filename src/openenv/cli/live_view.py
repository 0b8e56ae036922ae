"""The live view of `openenv train`: phase, time left, charts of the metrics, and the newest transcripts."""

import contextlib
import itertools
import logging
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from openenv.evaluation.tables import known_text

CHARTS = (("reward", "+.3f"), ("win_rate", ".1%"), ("entropy", ".3f"), ("kl", ".4f"))
"""The metrics that are drawn, and the form of their values."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_CHART_HEIGHT = 3
_RECENT_STEPS = 20  # over which speeds are measured
_WIDE = 120  # columns, from which all charts stand beside each other
_MOST_WAITS = 3
_LEAST_HEIGHT = 3  # lines of transcripts, also in a low terminal


@contextlib.contextmanager
def live_view(name: str, console: Console) -> "Iterator[LiveView]":
    """Show a run on the terminal while the context lasts. Pass what it yields as `on_progress`.

    Log lines and prints appear above the view, which would otherwise be torn apart.
    """
    view = LiveView(name)
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
    ]
    with Live(view, console=console, refresh_per_second=4), contextlib.ExitStack() as stack:
        for handler in handlers:
            stack.callback(handler.setStream, handler.stream)
            handler.setStream(sys.stderr)  # which is now that of the view
        yield view


@dataclass
class _Phase:
    """One phase of a run, such as `pretrain`."""

    name: str
    began: float
    done: int = 0
    total: int = 0
    took_s: float = 0.0


@dataclass
class _Training:
    """What is known of the training."""

    curves: dict[str, list[float]] = field(default_factory=lambda: {key: [] for key, _ in CHARTS})
    recent: "deque[tuple[float, int]]" = field(default_factory=lambda: deque(maxlen=_RECENT_STEPS))
    """When each of the last steps ended, and its number of episodes."""
    row: Mapping[str, Any] = field(default_factory=dict)
    transcripts: Sequence[Mapping[str, Any]] = ()
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    """The metrics of the newest step after which the run was evaluated."""
    waits: str = ""
    """The longest ones."""
    evaluated: tuple[int, int] | None = None
    """How many games of an evaluation that is being made have ended, and the number of all."""


class LiveView:
    """A rich renderable with the state of a run, and the `on_progress` that updates it. Both from any thread."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        """name: of the run. clock: seconds."""
        self._name = name
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._phases: list[_Phase] = []
        self._training = _Training()
        self._minutes_left: float | None = None

    def __call__(self, phase: str, done: int, total: int, known: Mapping[str, Any]) -> None:
        """Show that so much of a phase is done. known: what `OnProgress` reports beside it."""
        with self._lock:
            now = self._clock()
            if not self._phases or self._phases[-1].name != phase:
                self._phases.append(_Phase(phase, now))
            current = self._phases[-1]
            current.done, current.total, current.took_s = done, total, now - current.began
            self._minutes_left = known.get("minutes_left")
            if "evaluated" in known:
                self._training.evaluated = known["evaluated"], known["to_evaluate"]
            if "step" in known:
                self._add_step(known, now)
            if "status" in known:
                self._training.waits = " · ".join(map(str, known["status"].all_waits[:_MOST_WAITS]))

    def _add_step(self, row: Mapping[str, Any], now: float) -> None:
        training = self._training
        training.row = row
        training.evaluated = None
        if "eval/score" in row:
            training.evaluation = row
        training.recent.append((now, row["num_episodes"]))
        training.transcripts = row.get("transcripts", ())
        for key, values in training.curves.items():
            if row.get(key) is not None:
                values.append(float(row[key]))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._lock:
            width = options.max_width
            parts: list[RenderableType] = [*self._head()]
            if self._training.waits:
                parts.append(Text(self._training.waits, style="dim", no_wrap=True, overflow="ellipsis"))
            if self._training.row:
                parts += [self._speeds(), *self._evaluation(), self._charts(width)]
            above = len(console.render_lines(Group(*parts), options))
            height = max(_LEAST_HEIGHT, console.height - above - 2)  # a rule, and the line of the cursor
            yield Group(*parts, *self._transcripts(width, height))

    def _head(self) -> Iterator[RenderableType]:
        """The current phase with its bar and times, and how long the earlier ones took."""
        elapsed = duration(self._clock() - self._began)
        if not self._phases:
            yield Text(f"{self._name}: starting, {elapsed}", no_wrap=True)
            return
        phase = self._phases[-1]
        left_s = self._left_s()
        left = "" if left_s is None else f", {duration(left_s)} left"
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1)
        table.add_column(no_wrap=True, justify="right")
        table.add_row(
            Text(f"{self._name}: {phase.name}", style="bold", overflow="ellipsis"),
            ProgressBar(total=max(1, phase.total), completed=phase.done),
            Text(f"{phase.done:,}/{phase.total:,}, {elapsed}{left}"),
        )
        yield table
        ended = " · ".join(f"{earlier.name} {duration(earlier.took_s)}" for earlier in self._phases[:-1])
        if ended:
            yield Text(f"done: {ended}", style="dim", no_wrap=True, overflow="ellipsis")

    def _left_s(self) -> float | None:
        """Seconds until the phase ends, at its speed so far or when the run's time is up. None if not known."""
        phase = self._phases[-1]
        rate = self._steps_per_s() if phase.name == "train" else None
        if rate is None and phase.done and phase.took_s > 0:
            rate = phase.done / phase.took_s
        limits = [] if self._minutes_left is None else [60 * self._minutes_left]
        if rate:
            limits.append((phase.total - phase.done) / rate)
        return min(limits, default=None)

    def _steps_per_s(self) -> float | None:
        recent = self._training.recent
        took_s = recent[-1][0] - recent[0][0] if recent else 0.0
        return (len(recent) - 1) / took_s if took_s > 0 else None

    def _speeds(self) -> Text:
        """Steps and episodes per second, and what the replies look like."""
        row, rate, recent = self._training.row, self._steps_per_s(), self._training.recent
        parts = []
        if rate is not None:
            episodes = sum(number for _, number in list(recent)[1:]) / (recent[-1][0] - recent[0][0])
            parts.append(f"{rate:.1f} steps/s" if rate >= 1 else f"{1 / rate:.1f} s a step")
            parts.append(f"{episodes:,.0f} episodes/s" if episodes >= 10 else f"{episodes:.1f} episodes/s")
        if row.get("frac_reward_zero_std") is not None:
            parts.append(f"{1 - row['frac_reward_zero_std']:.0%} of groups with a signal")
        if row.get("completions/mean_length") is not None:
            parts.append(f"{row['completions/mean_length']:.1f} tokens a reply")
            parts.append(f"{row['completions/clipped_ratio']:.0%} cut off")
        if row.get("episodes/unparseable_ratio"):
            parts.append(f"{row['episodes/unparseable_ratio']:.0%} unparseable")
        return Text(" · ".join(parts))

    def _evaluation(self) -> Iterator[Text]:
        """The newest evaluation, and how far the one is that is being made."""
        row, running = self._training.evaluation, self._training.evaluated
        parts = list(_evaluation_figures(row))
        if parts:
            parts[0] = f"evaluation after step {row['step']}: {parts[0]}"
        if running is not None:
            parts.append(f"evaluating: {running[0]:,}/{running[1]:,} games")
        if parts:
            yield Text(" · ".join(parts), no_wrap=True, overflow="ellipsis")

    def _charts(self, width: int) -> Table:
        """A chart for each metric that has values, in two columns or beside each other."""
        known = [(key, form, self._training.curves[key]) for key, form in CHARTS if self._training.curves[key]]
        columns = max(1, len(known) if width >= _WIDE else min(2, len(known)))
        table = Table.grid(padding=(0, 2, 0, 0))
        room = width // columns - 2
        for first in range(0, len(known), columns):
            table.add_row(*(_chart(key, form, values, room) for key, form, values in known[first : first + columns]))
        return table

    def _transcripts(self, width: int, height: int) -> Iterator[RenderableType]:
        """The best and the worst of the newest transcripts, each with half of the lines, under a rule."""
        transcripts = self._training.transcripts
        if not transcripts:
            return
        first = transcripts[0]
        title = Text(f"step {first['step']}, group {first['group']}, seed {first['seed']}")
        yield Rule(title, style="dim", align="left")
        shown = [first, transcripts[-1]] if len(transcripts) > 1 else [first]
        lines = [_transcript_lines(transcript, width) for transcript in shown]
        spare = max(0, height // len(lines) - len(lines[-1]))  # what the last one leaves
        for number, part in enumerate(lines):
            room = height // len(lines) + (spare if number == 0 else 0)
            yield from part[:room]


def _evaluation_figures(row: Mapping[str, Any]) -> Iterator[str]:
    """The results of an evaluation: of several environments, the name of each comes first."""
    for key in row:
        if key.startswith("eval/") and key.endswith("greedy/return"):
            prefix = key.removesuffix("greedy/return")
            yield from _figures_of(row, prefix)


def _figures_of(row: Mapping[str, Any], prefix: str) -> Iterator[str]:
    label = prefix.removeprefix("eval/").replace("/", " ")
    for player in ("greedy", "sampled"):
        win_rate, mean = (row.get(f"{prefix}{player}/{name}") for name in ("win_rate", "return"))
        known = [f"won {win_rate:.1%}"] if win_rate is not None else []
        known += [f"return {mean:+.3f}"] if mean is not None else []
        if known:
            yield f"{label}{player} {', '.join(known)}"
    for key, value in row.items():
        if key.startswith(f"{prefix}pass@") and isinstance(value, float):
            yield f"{label}{key.removeprefix(prefix)} {value:.1%}"


def _chart(key: str, form: str, values: Sequence[float], width: int) -> Text:
    title = f"{key} {values[-1]:{form}}"
    span = f"{min(values):{form}} to {max(values):{form}}"
    text = Text(no_wrap=True, overflow="crop")
    text.append(title, style="bold")
    text.append(span.rjust(max(len(span) + 1, width - len(title))), style="dim")
    for line in block_chart(values, width, _CHART_HEIGHT):
        text.append(f"\n{line}", style="cyan")
    return text


def block_chart(values: Sequence[float], width: int, height: int) -> list[str]:
    """Lines of block characters that show the values from left to right, between their minimum and their maximum.

    More values than columns are averaged. Equal values are drawn at half height.
    """
    columns = [_mean(part) for part in _parts(values, width)]
    low, high = min(columns), max(columns)
    levels = [
        1 + round((value - low) / (high - low) * (8 * height - 1)) if high > low else 4 * height for value in columns
    ]
    return [
        "".join(_BLOCKS[min(8, max(0, level - 8 * row))] for level in levels).rstrip()
        for row in range(height - 1, -1, -1)
    ]


def _parts(values: Sequence[float], number: int) -> list[Sequence[float]]:
    """The values in at most `number` parts of about equal length."""
    number = min(number, len(values))
    ends = [part * len(values) // number for part in range(number + 1)]
    return [values[start:end] for start, end in itertools.pairwise(ends)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _transcript_lines(transcript: Mapping[str, Any], width: int) -> list[Text]:
    """The outcome of an episode, and its turns: what the model was shown, what it replied, and what that was worth."""
    lines = _cut(
        f"{transcript['outcome']}, reward {known_text(transcript['reward'])}  {transcript['reason']}", width, 1, "bold"
    )
    for turn in transcript["turns"]:
        advantage = "" if turn["advantage"] is None else f", advantage {turn['advantage']:+.3g}"
        lines += _cut(turn["prompt"], width, 2, "dim")
        lines += _cut(f"→ {turn['reply']}  (reward {known_text(turn['reward'])}{advantage})", width, 3, "green")
    return lines


def _cut(text: str, width: int, most: int, style: str) -> list[Text]:
    """The text in at most so many lines. The middle of a longer one is left out."""
    flat = " ".join(text.split())
    room = width * most
    if len(flat) > room:
        half = (room - 3) // 2
        flat = f"{flat[:half]} … {flat[-half:]}"
    starts = range(0, len(flat), width)
    return [Text(flat[start : start + width], style=style, no_wrap=True, overflow="crop") for start in starts]


def duration(seconds: float) -> str:
    """Minutes and seconds, or hours, minutes and seconds: 1:05, 2:00:09."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
