"""`openenv eval`: compare policies in one environment."""

import logging
import math
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress

from openenv.auto.environment import named_environment
from openenv.auto.source import FORMS
from openenv.cli.pages.evaluation import evaluation_page
from openenv.cli.pages.options import HOST, PORT
from openenv.cli.playing.saved_episodes import SavedEpisodes
from openenv.core.schema.legal_actions import REFUSED_REMEDY
from openenv.core.utils import run_async_safely
from openenv.envs.catalog import game_keyword
from openenv.evaluation import Summary, medal_table, replies_table
from openenv.evaluation import evaluate as run_evaluation
from openenv.evaluation.evaluator import EpisodeObserver
from openenv.evaluation.intervals import EpisodeResult
from openenv.evaluation.tables import CUT_OFF_REMEDY, STOPPED_REMEDY, table_console
from openenv.formats.json_text import json_or_word, json_text
from openenv.pages.live_results import LiveResults
from openenv.policies.registry import EndpointOptions, policy_named
from openenv.text.interface import TextInterface

log = logging.getLogger(__name__)

_FAULT = "step: step() "
"""Begins reasons in which the server names a fault of the environment's code, not a refused action."""
_PLOTS = (".png", ".svg", ".pdf")
EXAMPLE = "Example: `openenv eval openspiel --game catch --policy random,stay,smart,learning --episodes 50`"


def evaluate(
    environment: str = typer.Argument("openspiel", help=f"Play in this environment: {FORMS}."),
    policy: str = typer.Option(
        "random",
        help="Compare these policies, separated by commas: random, stay, smart, learning, chart, mcts, always:ACTION, "
        "or llm:MODEL@URL of an OpenAI-compatible endpoint, such as llm:qwen3@http://localhost:8001/v1.",
    ),
    game: str = typer.Option(None, help="Play this game, where the environment has several (default: the server's)."),
    reset: list[str] = typer.Option(
        [], help="Send KEY=VALUE with every reset; VALUE is JSON or a word. Repeatable (default: none)."
    ),
    episodes: int = typer.Option(50, min=1, help="Play this many episodes with each policy."),
    seed: int = typer.Option(
        0, min=0, help="Start the first episode from this seed; all policies play equal episodes."
    ),
    sessions: int = typer.Option(32, min=1, help="Play this many episodes at the same time."),
    text: str = typer.Option(
        None, help="Use this text interface, MODULE:CLASS or FILE.py:CLASS (default: the environment's own)."
    ),
    success_return: float = typer.Option(
        None,
        help="Count an episode with at least this return as a success (default: what the environment declares; one "
        "that declares nothing has a mean return and no success rate).",
    ),
    max_steps: int = typer.Option(1000, min=1, help="Stop an episode after this many steps; its rewards so far count."),
    retries: int = typer.Option(
        0,
        min=0,
        help="Let a language model reply again, up to this many times, to a reply without a legal action; it "
        "is shown the problem.",
    ),
    tool_calls: bool = typer.Option(
        True,
        help="Offer a language model the environment's tools, or its action of several fields, as functions to call. "
        "Without, it replies with texts.",
    ),
    temperature: float = typer.Option(
        0.0, min=0.0, help="Temperature of a language model (default 0).", show_default=False
    ),
    max_tokens: int = typer.Option(256, min=1, help="Tokens of each reply of a language model, at most."),
    timeout_s: float = typer.Option(
        60.0,
        min=0.001,
        help="Wait this many seconds for each reply of a language model (default 60).",
        show_default=False,
    ),
    api_key_env: str = typer.Option(
        "OPENAI_API_KEY",
        help="Send a language model's server the key of this environment variable, if it is set (default "
        "OPENAI_API_KEY).",
        show_default=False,
    ),
    save: Path = typer.Option(
        None,
        file_okay=False,
        help="Write the episodes of each policy to a file in this folder, for `openenv export` (default: none).",
    ),
    resume: bool = typer.Option(
        False,
        "--resume",
        help="Keep the episodes that the folder of --save has, and play those that are missing or invalid "
        "(default: play all).",
    ),
    plot: Path = typer.Option(
        Path("runs/eval.png"),
        dir_okay=False,
        help="Write the plot to this file (default runs/eval.png).",
        show_default=False,
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table (default: a table)."),
    web: bool = typer.Option(
        False,
        "--web",
        help="Serve a page with the results while they grow, and with two policies side by side, until interrupted "
        "(default: none).",
    ),
    port: int = PORT,
    host: str = HOST,
) -> None:
    """Play equal episodes with each policy. Print a ranking with 95 % intervals and draw a plot."""
    if resume and save is None:
        raise ValueError("--resume continues from the episodes of a folder: add --save DIR")
    if success_return is not None and not math.isfinite(success_return):
        raise ValueError(f"--success-return {success_return}: give a finite number")
    if plot.suffix.lower() not in _PLOTS:
        raise ValueError(f"--plot {plot}: give a file that ends with {', '.join(_PLOTS)}")
    named = replace(named_environment(environment, text=text), success_return=success_return)
    keywords = reset_keywords(environment, reset, game)
    summaries: list[Summary] = []

    def keep(summary: Summary) -> None:
        summaries.append(summary)
        log.info("finished policy=%s episodes=%d", summary.name, summary.num_episodes)

    endpoint = EndpointOptions(
        temperature=temperature, max_tokens=max_tokens, timeout_s=timeout_s, api_key=os.environ.get(api_key_env),
        calls_functions=tool_calls, retries=retries,
    )  # fmt: skip
    with named.served() as served, ExitStack() as pages:
        names = [name.strip() for name in policy.split(",")]
        make = partial(_make, served.text, endpoint)
        policies = [make(name, seed) for name in names]
        saved = SavedEpisodes(save, environment, served, keywords, resumes=resume) if save else None
        results = LiveResults(names, episodes)
        seeds = range(seed, seed + episodes)
        page = None
        if web:
            page = pages.enter_context(evaluation_page(
                environment, served, policies, make, results, seed=seed, reset_kwargs=keywords,
                max_steps=max_steps, host=host, port=port,
            ))  # fmt: skip
        with Progress(console=Console(stderr=True), transient=True) as progress:
            playing = run_evaluation(
                served.base_url, served.client, policies, episodes, seed, num_sessions=sessions, reset_kwargs=keywords,
                text=served.text, on_progress=_reporter(progress), on_summary=keep, max_steps=max_steps,
                observers_for=partial(_observers, saved, results),
                known_for=partial(_known_episodes, saved, results, seeds),
            )  # fmt: skip
            try:
                run_async_safely(playing)
            except KeyboardInterrupt:
                progress.stop()
                so_far = [replace(one, name=of.name) for one, of in zip(results.summaries(), policies, strict=True)]
                summaries += [one for one in so_far[len(summaries) :] if one.num_played]
                num_ended = sum(one.num_played for one in so_far)
                remedy = "--resume goes on" if saved else "--save DIR keeps them, for --resume to go on"
                wanted = len(policies) * episodes
                line = f"stopped after {num_ended} of {wanted} episodes. With the same command, {remedy}."
                typer.echo(line, err=True)
                raise
            finally:
                progress.stop()
                show(summaries, plot, as_json=as_json)  # also after Ctrl-C, of the episodes that have ended
                for path in saved.paths if saved else ():
                    typer.echo(f"episodes: {path}", err=True)
        if page is not None:
            page.wait()
    _report_failures(summaries)


def _observers(saved: SavedEpisodes | None, results: LiveResults, place: int, policy: Any) -> list[EpisodeObserver]:
    """What sees the episodes of a policy: its recorder, and the results."""
    recorders = [] if saved is None else [saved.recorder(place, policy)]
    return [*recorders, results.observer(place)]


def _known_episodes(
    saved: SavedEpisodes | None, results: LiveResults, seeds: range, place: int, policy: Any
) -> Mapping[int, EpisodeResult]:
    """The episodes that an earlier evaluation has saved, which the results have too."""
    known = {} if saved is None else saved.known(place, policy, seeds)
    for result in known.values():
        results.add(place, result)
    return known


def _make(text: TextInterface[Any, Any], endpoint: "EndpointOptions", name: str, seed: int) -> Any:
    """A policy by its name on the command line."""
    return policy_named(name, text, seed, endpoint)


def show(summaries: list[Summary], plot: Path, *, as_json: bool) -> None:
    """Print the summaries as a table or as JSON, and draw the plot. Without summaries, do nothing."""
    if not summaries:
        return
    if as_json:
        typer.echo(json_text([as_row(summary) for summary in summaries], indent=2))
        if any(summary.num_cut_off_replies for summary in summaries):
            typer.echo(CUT_OFF_REMEDY, err=True)
    else:
        table_console().print(medal_table(summaries))
        replies = replies_table(summaries)
        if replies is not None:
            table_console().print(replies)
    if any(summary.num_stopped for summary in summaries):
        typer.echo(STOPPED_REMEDY, err=True)
    # importing matplotlib takes longer than a short evaluation
    from openenv.evaluation.plots import plot_summaries

    typer.echo(f"plot: {plot_summaries(summaries, plot)}", err=True)


def _report_failures(summaries: list[Summary]) -> None:
    """Print why episodes are invalid, or ended by a refused action. Raise RuntimeError without a valid episode."""
    for summary in summaries:
        reasons = "; ".join(f"{reason} ({count} times)" for reason, count in summary.invalid_reasons.most_common(3))
        if any(reason.startswith("step: ") and not reason.startswith(_FAULT) for reason in summary.invalid_reasons):
            reasons += f". Where the environment refuses actions, {REFUSED_REMEDY}"
        if summary.num_episodes == 0:
            raise RuntimeError(f"no episode of {summary.name} was valid: {reasons}")
        if reasons:
            typer.echo(f"invalid episodes of {summary.name}, which count nowhere: {reasons}", err=True)
        refused = "; ".join(f"{reason} ({count} times)" for reason, count in summary.refused_reasons.most_common(3))
        if refused:
            typer.echo(f"unparseable episodes of {summary.name}: {refused}. To change: {REFUSED_REMEDY}", err=True)


def as_row(summary: Summary) -> dict[str, Any]:
    """Return the fields of a summary, its win rate and its interval as JSON values.

    `json_text` writes a number that is not known, such as the mean return without a finished game, as null.
    """
    named = {field.name: getattr(summary, field.name) for field in fields(summary) if field.name != "decisions"}
    return {**named, "win_rate": summary.win_rate, "win_interval": summary.win_interval}


def reset_keywords(environment: str, pairs: list[str], game: str | None) -> dict[str, Any]:
    """Return the keywords of every reset from `KEY=VALUE` pairs and the name of a game.

    Raises ValueError for a pair without `=`, and for a game of an environment that chooses none by name.
    """
    keywords: dict[str, Any] = {}
    if game is not None:
        keyword = game_keyword(environment)
        if keyword is None:
            raise ValueError(f"--game {game}: {environment} chooses no game by name. Write --reset KEY=VALUE.")
        keywords[keyword] = game
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"--reset {pair}: write KEY=VALUE, such as opponent_policy=mcts")
        keywords[key] = json_or_word(value)
    return keywords


def _reporter(progress: Progress) -> Callable[[str, int, int], None]:
    tasks: dict[str, Any] = {}

    def report(name: str, ended: int, total: int) -> None:
        if name not in tasks:
            tasks[name] = progress.add_task(name, total=total)
        progress.update(tasks[name], completed=ended)

    return report
