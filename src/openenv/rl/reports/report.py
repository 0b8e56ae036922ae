"""The HTML report of a run: results, training curves, actions by situation, and a few recorded games."""

import contextlib
import html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openenv.evaluation.tables import NO_RETURN, interval_text, known_text, number_text
from openenv.formats.json_text import json_text
from openenv.rl.reports.best_checkpoint import best_line, evaluations
from openenv.rl.reports.charts import Series, chart_script, chart_style, line_chart, report_policy
from openenv.rl.reports.results import WARM_START, PlayerResult, declare_success, load_results, read_rows
from openenv.rl.reports.run_state import failure
from openenv.rl.reports.training_log import collapses, newest_transcripts

CURVES = (
    ("reward", "Reward"),
    ("return", "Return of the game"),
    ("win_rate", "Win rate"),
    ("kl", "KL to the model before GRPO (k3, nats per token)"),
    ("entropy", "Entropy (nats per token)"),
    ("action_entropy", "Entropy of the actions (part of what it could be)"),
    ("mutual_information", "How much actions depend on what is seen (nats)"),
    ("step_kl", "KL of a step (nats per token)"),
    ("mismatch_kl", "KL between generator and trainer (nats per token)"),
    ("completions/mean_length", "Length of a reply (tokens)"),
    ("completions/clipped_ratio", "Share of replies that were cut off"),
    ("completions/repetition", "Share of repeated 3-grams in a reply"),
    ("episodes/unparseable", "Replies without a legal action"),
    ("frac_reward_zero_std", "Groups with equal rewards, which teach nothing"),
    ("off_policy/max_age", "Age of the weights that played (steps)"),
)
_CURVES_OF_EACH = {"return": "Return of the game in", "win_rate": "Win rate in", "level": "Level of the curriculum in"}
"""Beginnings of titles by the first part of keys that end with the name of an environment."""
_INTERVAL = "95 % interval"
_SMOOTHING = 15
_MOST_SITUATIONS = 8

_NO_SCRIPT = "<noscript><p class=warning>The charts need this file's own script: open it in a browser.</p></noscript>"
_STYLE = Path(__file__).with_name("report.css")


def write_report(run_dir: Path) -> Path:
    """Write `report.html` from the files in the run's folder, complete or not. Returns its path."""
    rows = read_rows(run_dir / "metrics.jsonl")
    results = load_results(run_dir)
    games = run_dir / "games.json"
    body = [
        f"<h1>{html.escape(run_dir.name)}</h1>",
        _failure(failure(run_dir)),
        _table(results),
        _evaluations(rows, best_line(run_dir)),
        _warm_start(run_dir / WARM_START),
        _training_section(rows),
        _transcripts(newest_transcripts(read_rows(run_dir / "transcripts.jsonl"))),
        _situations(results),
        _games(json.loads(games.read_text(encoding="utf-8")) if games.exists() else []),
        _settings(run_dir / "config.json"),
    ]
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{report_policy()}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(run_dir.name)}</title>"
        f"<style>{chart_style()}{_STYLE.read_text(encoding='utf-8')}</style></head>"
        f"<body>{_NO_SCRIPT}{''.join(body)}<script type=module>{chart_script()}</script></body></html>"
    )
    path = run_dir / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def _failure(text: str | None) -> str:
    """The error that has ended the run."""
    return "" if text is None else f"<p class=warning>The run failed. {html.escape(text)}</p>"


def _table(results: Sequence[PlayerResult]) -> str:
    if not results:
        return "<p>Nothing has been evaluated yet.</p>"
    has_rates = declare_success(results)
    titles = ["player", *["win rate", _INTERVAL] * has_rates, "mean return", _INTERVAL, "games", "no legal action"]
    note = "Before GRPO the model samples its replies, as in training; afterwards it is evaluated at the temperature"
    note += " of the settings below (0: the most likely reply). Returns are those of the game."
    rows = "".join(_row(titles, _cells(result, has_rates), result.role) for result in results)
    return f"<table>{_head(titles)}{rows}</table><p>{note}</p>"


def _head(titles: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<th>{html.escape(title)}</th>' for title in titles)}</tr>"


def _row(titles: Sequence[str], cells: Sequence[str], css: str = "") -> str:
    """A row of a table. Where the page is narrow, it is a list of its cells with the titles of their columns."""
    first, *rest = cells
    labelled = zip(titles[1:], rest, strict=True)
    more = "".join(f'<td data-label="{html.escape(title)}">{cell}</td>' for title, cell in labelled)
    return f'<tr class="{html.escape(css)}"><td>{first}</td>{more}</tr>'


def _cells(result: PlayerResult, has_rates: bool) -> list[str]:
    cells = [html.escape(result.name)]
    if has_rates:
        known = None if math.isnan(result.win_rate) else result.win_interval
        cells += [number_text(result.win_rate, ".2%"), interval_text(known, ".2%", " to ")]
    mean = number_text(result.mean_return, "+.4f", none=NO_RETURN)
    cells += [mean, interval_text(result.return_interval, "+.4f", " to ")]
    is_exact = result.role == "optimum"
    return cells + (["exact", ""] if is_exact else [f"{result.num_games:,}", f"{result.num_unparseable:,}"])


def _warm_start(path: Path) -> str:
    """What the model has learned from a teacher before GRPO."""
    if not path.exists():
        return ""
    learned = json.loads(path.read_text(encoding="utf-8"))
    losses = [(float(number), loss) for number, loss in enumerate(learned["losses"], start=1)]
    note = (
        f"{learned['num_decisions']:,} replies of {html.escape(learned['teacher'])} in {learned['num_episodes']:,} "
        f"episodes, mean return {learned['mean_return']:+.3f}; {learned['num_left_out']:,} episodes were left out. On "
        f"what was held out the loss went from {learned['loss_before']:.3f} to {learned['loss_after']:.3f} nats per "
        f"token, and the share of likeliest tokens from {learned['likeliest_before']:.1%} to "
        f"{learned['likeliest_after']:.1%}."
    )
    lines = [Series(name="loss", points=losses)]
    chart = line_chart("Loss of the warm start (nats per token)", lines, x_label="batch", smoothing=_SMOOTHING)
    return f"<h2>Warm start</h2><p>{note}</p><div class=charts>{chart}</div>"


def _training_section(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    last = rows[-1]
    games = sum(int(row["num_episodes"]) for row in rows)
    note = f"{last['step']} steps, {games:,} games, {last['training_s'] / 60:.1f} minutes of training."
    warned = [
        f"<p class=warning>Step {row['step']}: {html.escape(row['warning'])}</p>" for row in rows if row.get("warning")
    ]
    num_cut_off = sum(int(row.get("replies/cut_off") or 0) for row in rows)
    if num_cut_off:
        warned.append(f"<p class=warning>{num_cut_off:,} replies were cut off: raise max_res_tokens.</p>")
    parts = [
        (key, f"Score: {key.split('/', 1)[1].removesuffix('/mean')}") for key in last if key.startswith("rewards/")
    ]
    known = {key: None for row in rows for key, value in row.items() if value is not None}
    of_each = [
        (key, f"{_CURVES_OF_EACH[kind]} {label}") for kind, label, key in _split(known) if kind in _CURVES_OF_EACH
    ]
    charts = [_curve(rows, key, title) for key, title in (*CURVES, *of_each, *parts) if key in known]
    drawn = "".join([*charts, _situation_curve(rows)])
    collapsed = [f"{name} (step {step})" for step, name in collapses(rows)]
    if collapsed:
        warned.append(f"<p>Dashed lines: the policy collapsed, with these signs: {', '.join(collapsed)}.</p>")
    return f"<h2>Training</h2><p>{note}</p>{''.join(warned)}<div class=charts>{drawn}</div>"


def _evaluations(rows: Sequence[Mapping[str, Any]], best: str | None) -> str:
    """Curves of the evaluations during training, those of each environment, with their intervals."""
    evaluated = evaluations(rows)
    if not evaluated:
        return ""
    keys = dict.fromkeys(key for row in evaluated for key in row)
    of_each = [key.removesuffix("greedy/return") for key in keys if key.endswith("greedy/return")]
    charts = []
    for prefix in of_each:
        label = prefix.removeprefix("eval/").rstrip("/")
        where = f" in {label}" if label else ""
        passed = [key for key in keys if key.startswith(f"{prefix}pass@") and not key.endswith("_interval")]
        wins = [f"{prefix}greedy/win_rate", f"{prefix}sampled/win_rate", *passed]
        returns = [f"{prefix}greedy/return", f"{prefix}sampled/return"]
        if any(row.get(key) is not None for row in evaluated for key in wins):
            charts.append(_curves_with_intervals(f"Win rate in evaluations{where}", evaluated, wins, prefix))
        charts.append(_curves_with_intervals(f"Return in evaluations{where}", evaluated, returns, prefix))
    note = (
        "The same games after each of these steps, with 95 % intervals: the most likely replies (greedy), sampled ones,"
    )
    note += " and the probability that one of k sampled games is won (pass@k)."
    named = "" if best is None else f"<p>{html.escape(best)}</p>"
    return f"<h2>Evaluations during training</h2><p>{note}</p>{named}<div class=charts>{''.join(charts)}</div>"


def _curves_with_intervals(title: str, rows: Sequence[Mapping[str, Any]], keys: Sequence[str], prefix: str) -> str:
    """A chart of several metrics of evaluations. prefix: left out of their names."""
    lines = []
    for key in keys:
        known = [row for row in rows if row.get(key) is not None]
        points = [(float(row["step"]), float(row[key])) for row in known]
        intervals = [(float(row["step"]), *row[f"{key}_interval"]) for row in known if row.get(f"{key}_interval")]
        name = key.removeprefix(prefix).partition("/")[0]
        lines.append(Series(name=name, points=points, intervals=intervals))
    return line_chart(title, lines)


def _split(keys: Iterable[str]) -> list[tuple[str, str, str]]:
    """The part before the first slash, the rest, and the whole of each key that has both parts."""
    parted = [(*key.partition("/"), key) for key in keys]
    return [(kind, label, key) for kind, _, label, key in parted if label]


def _curve(rows: Sequence[Mapping[str, Any]], key: str, title: str) -> str:
    points = [(float(row["step"]), float(row[key])) for row in rows if row.get(key) is not None]
    marks = [step for step, _ in collapses(rows)]
    return line_chart(title, [Series(name=key, points=points)], marks=marks, smoothing=_SMOOTHING)


def _situation_curve(rows: Sequence[Mapping[str, Any]]) -> str:
    """The share of one reply in up to eight situations, over training."""
    seen = {situation for row in rows for situation in row.get("decisions", {})}
    reply = _counted_reply([row.get("decisions", {}) for row in rows])
    if not seen or reply is None:
        return ""
    names = _spread(sorted(seen, key=_situation_order))
    lines = [
        Series(
            name=name,
            points=[(float(row["step"]), _share(row.get("decisions", {}).get(name, {}), reply)) for row in rows],
        )
        for name in names
    ]
    return line_chart(f"P({reply}) by situation", lines, y_range=(0.0, 1.0), smoothing=_SMOOTHING)


def _spread(names: Sequence[str]) -> list[str]:
    """At most eight of the names, evenly spaced; only those of the kind `hard` if there are any."""
    hard = [name for name in names if name.startswith("hard ")]
    chosen = hard or list(names)
    step = max(1, -(-len(chosen) // _MOST_SITUATIONS))
    return chosen[::step]


def _situation_order(name: str) -> tuple[str, int]:
    kind, _, number = name.rpartition(" ")
    return (kind, int(number)) if number.isdigit() else (name, 0)


def _counted_reply(tables: Sequence[Mapping[str, Mapping[str, int]]]) -> str | None:
    """The reply whose share is drawn: `hit` if it occurs, else the first by name."""
    replies = {reply for table in tables for counts in table.values() for reply in counts}
    return "hit" if "hit" in replies else min(replies, default=None)


def _share(counts: Mapping[str, int], reply: str) -> float:
    total = sum(counts.values())
    return counts.get(reply, 0) / total if total else float("nan")


def _transcripts(transcripts: Sequence[Mapping[str, Any]]) -> str:
    """Sample transcripts of one step."""
    boxes = [
        f"<div class=game><h3>{html.escape(shown['outcome'])}, reward {known_text(shown['reward'])}</h3>"
        f"{''.join(map(_turn, shown['turns']))}<p>{html.escape(shown['reason'])}</p></div>"
        for shown in transcripts
    ]
    if not boxes:
        return ""
    first = transcripts[0]
    note = f"Episodes of group {first['group']}, seed {first['seed']}, with the prompts that the model was shown."
    return f"<h2>Transcripts of step {first['step']}</h2><p>{note}</p><div class=games>{''.join(boxes)}</div>"


def _turn(turn: Mapping[str, Any]) -> str:
    advantage = "" if turn["advantage"] is None else f", advantage {turn['advantage']:+.3g}"
    return (
        f"<pre class=seen>{html.escape(turn['prompt'])}</pre>"
        f"<p><b>{html.escape(turn['reply']) or '(nothing)'}</b> reward {known_text(turn['reward'])}{advantage}</p>"
    )


def _situations(results: Sequence[PlayerResult]) -> str:
    """The model's replies by situation, before and after training, in the evaluation games."""
    tables: dict[str, PlayerResult] = {
        result.role: result for result in results if result.role in ("before", "after") and result.decisions
    }
    if "after" not in tables:
        return ""
    reply = _counted_reply([result.decisions for result in tables.values()])
    charts = [_by_total(kind, tables, reply or "") for kind in ("hard", "soft")]
    names = sorted(tables["after"].decisions, key=_situation_order)
    titles = ["situation", *(result.name for result in tables.values())]
    shares = [[_shares(result.decisions.get(name, {})) for result in tables.values()] for name in names]
    rows = [_row(titles, [html.escape(name), *cells]) for name, cells in zip(names, shares, strict=True)]
    return (
        f"<h2>Replies by situation</h2><div class=charts>{''.join(charts)}</div>"
        f"<details><summary>All situations</summary><table>{_head(titles)}{''.join(rows)}</table></details>"
    )


def _shares(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return (
        ", ".join(f"{html.escape(reply)} {count / total:.1%}" for reply, count in sorted(counts.items()))
        or "did not occur"
    )


def _by_total(kind: str, tables: Mapping[str, PlayerResult], reply: str) -> str:
    lines = []
    for result in tables.values():
        matches = [(re.fullmatch(rf"{kind} (\d+)", name), counts) for name, counts in result.decisions.items()]
        points = sorted((float(match[1]), _share(counts, reply)) for match, counts in matches if match)
        lines.append(Series(name=result.name, points=points))
    return line_chart(f"P({reply}) by {kind} total", lines, x_label=f"{kind} total", y_range=(0.0, 1.0))


def _games(games: Sequence[Mapping[str, Any]]) -> str:
    if not games:
        return ""
    boxes = [
        f"<div class=game><h3>Seed {game['seed']}, {html.escape(role)}</h3>{_moves(game[role])}</div>"
        for game in games
        for role in ("before", "after")
        if role in game
    ]
    return f"<h2>Recorded games</h2><div class=games>{''.join(boxes)}</div>"


def _moves(game: Mapping[str, Any]) -> str:
    moves = [
        f"<p><span class=seen>{html.escape(seen)}</span> → <b>{html.escape(reply) or '(nothing)'}</b></p>"
        for seen, reply in game["turns"]
    ]
    reason = f": {html.escape(game['reason'])}" if game["reason"] else ""
    return f"{''.join(moves)}<p>{html.escape(game['outcome'])}, return {known_text(game['return'], '+g')}{reason}</p>"


def _settings(path: Path) -> str:
    if not path.exists():
        return ""
    text = path.read_text(encoding="utf-8")
    with contextlib.suppress(ValueError):  # what is no JSON is shown as it is
        text = json_text(json.loads(text), indent=1, ensure_ascii=False)
    return f"<footer><details><summary>Settings of the run</summary><pre>{html.escape(text)}</pre></details></footer>"
