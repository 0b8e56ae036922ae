"""Summaries as a table with medals, and one observation as text."""

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from openenv.evaluation.intervals import Interval, Summary
from openenv.formats.text_file import printable

NO_FINISHED_GAME = "no finished game"
NO_RETURN = "no return"
"""In place of a mean return: no game has ended, or no step had a reward."""
_FILE_WIDTH = 120
CUT_OFF_REMEDY = "replies were cut off at the limit of tokens: raise --max-tokens, or max_tokens of the endpoint"
STOPPED_REMEDY = "stopped episodes did not end within --max-steps; their rewards so far count"
MEDALS = ("🥇", "🥈", "🥉")
_MAX_NUMBERS = 12


def table_console(least_width: int = _FILE_WIDTH) -> Console:
    """Standard output, as wide as the terminal; a file or a pipe is as wide as a table needs."""
    console = Console(emoji=False)
    return console if console.is_terminal else Console(width=max(least_width, console.width), emoji=False)


def ranked(summaries: Sequence[Summary]) -> list[tuple[int, Summary]]:
    """Place and summary of each policy, best first. Equal results share a place (1, 1, 3).

    The order is by mean return, then by win rate. If any policy has unparseable episodes, which have no return, it is
    by win rate alone, where the environment declares a success.
    """
    by_wins = any(s.num_unparseable for s in summaries) and any(s.declares_success for s in summaries)
    score = _win_score if by_wins else _score
    ordered = sorted(summaries, key=score, reverse=True)
    scores = [score(summary) for summary in ordered]
    return [(scores.index(score(summary)) + 1, summary) for summary in ordered]


def medal_table(summaries: Sequence[Summary]) -> Table:
    """A rich table of the summaries, best policy first, with medals for the first three places."""
    table = Table("", "policy", title="Results, with 95 % intervals")
    shows_success = any(s.declares_success for s in summaries)
    shows_push = any(s.num_push for s in summaries)
    rates = [*["success rate"] * shows_success, "mean return", *["push"] * shows_push]
    for heading in (*rates, "steps", "episodes"):
        table.add_column(heading, justify="right")
    broken = any(s.num_stopped or s.num_unparseable or s.num_invalid for s in summaries)
    for heading in ("stopped", "unparseable", "invalid") if broken else ():
        table.add_column(heading, justify="right")
    for place, summary in ranked(summaries):
        cells = [MEDALS[place - 1] if place <= len(MEDALS) else str(place), summary.name]
        cells += _cells(summary, shows_success=shows_success, shows_push=shows_push)
        counts = (summary.num_stopped, summary.num_unparseable, summary.num_invalid)
        table.add_row(*cells, *(map(str, counts) if broken else ()))
    return table


def replies_table(summaries: Sequence[Summary]) -> Table | None:
    """A rich table of what the language models have replied; None without a model."""
    models = [summary for summary in summaries if summary.num_replies]
    if not models:
        return None
    is_cut = any(model.num_cut_off_replies for model in models)
    table = Table("model", title="Replies of language models", caption=CUT_OFF_REMEDY if is_cut else None)
    for heading in ("replies", "without an action", "cut off", "prompt tokens", "reply tokens"):
        table.add_column(heading, justify="right")
    for model in models:
        replies = (model.num_replies, model.num_unparseable_replies, model.num_cut_off_replies)
        table.add_row(model.name, *map(str, (*replies, model.prompt_tokens, model.completion_tokens)))
    return table


def _cells(summary: Summary, *, shows_success: bool, shows_push: bool) -> list[str]:
    low, high = summary.win_interval
    half = summary.return_interval[1] - summary.mean_return
    success = number_text(summary.win_rate, ".1%", f" ({100 * low:.1f}-{100 * high:.1f})")
    return [
        *[success] * shows_success,
        number_text(summary.mean_return, "+.3f", f" ± {half:.3f}" if math.isfinite(half) else "", none=NO_RETURN),
        *[number_text(summary.push_rate, ".1%")] * shows_push,
        number_text(summary.mean_steps, ".1f"),
        str(summary.num_episodes),
    ]


def known_text(value: float | None, form: str = "+.3g") -> str:
    """A reward or a return as text; `none` where the environment gave none, or failed."""
    return "none" if value is None else format(value, form)


def number_text(value: float, form: str, interval: str = "", *, none: str = NO_FINISHED_GAME) -> str:
    """A rate or mean with its interval. none: in place of NaN, which a player without a finished game has."""
    return none if math.isnan(value) else f"{value:{form}}{interval}"


def interval_text(interval: Interval | None, form: str, between: str) -> str:
    """Both ends of an interval; nothing for an exact number, or from a single game, which has an infinite one."""
    if interval is None or not all(map(math.isfinite, interval)):
        return ""
    return between.join(format(end, form) for end in interval)


def _score(summary: Summary) -> tuple[float, float]:
    """The sort key: mean return, then win rate. A policy without valid episodes ranks last."""
    if math.isnan(summary.mean_return):
        return -math.inf, -math.inf
    return summary.mean_return, summary.win_rate if summary.declares_success else 0.0


def _win_score(summary: Summary) -> tuple[float, float]:
    return (-math.inf, -math.inf) if math.isnan(summary.win_rate) else (summary.win_rate, 0.0)


def show_openenv_observation(observation: Any) -> None:
    """Print an observation: its text if it has one, then each field. Long lists are cut short."""
    print(printable(observation_text(observation)))  # noqa: T201  its purpose is to print


def observation_text(observation: Any) -> str:
    """The lines that `show_openenv_observation` prints, as one string."""
    fields = observation.model_dump()
    metadata = fields.pop("metadata", None) or {}
    lines = [type(observation).__name__]
    if metadata.get("text"):
        lines += [f"  | {line}" for line in metadata["text"].strip().splitlines()]
    names = metadata.get("legal_action_names")
    for name, value in fields.items():
        if name == "legal_actions" and names:
            value = _short([f"{number} {word}" for number, word in zip(value, names, strict=True)])
        lines.append(f"  {name}: {_short(value)}")
    others = {key: value for key, value in metadata.items() if key not in ("text", "legal_action_names")}
    lines += [f"  metadata.{key}: {_short(value)}" for key, value in others.items()]
    return "\n".join(lines)


def _short(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    shown = [f"{item:g}" if isinstance(item, float) else str(item) for item in value[:_MAX_NUMBERS]]
    more = f", ... {len(value)} values" if len(value) > _MAX_NUMBERS else ""
    return f"[{', '.join(shown)}{more}]"
