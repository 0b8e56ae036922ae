"""`openenv eval`: compare policies in one environment."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress

from openenv.auto.environment import named_environment
from openenv.auto.resolver import FORMS
from openenv.cli.completion import environment_names, policy_lists
from openenv.cli.option_groups import with_option_groups
from openenv.cli.pages.options import PageOptions
from openenv.cli.playing.evaluation_options import EpisodeOptions, ModelOptions, ResultOptions
from openenv.cli.playing.saved_episodes import SavedEpisodes
from openenv.core.utils import run_async_safely
from openenv.evaluation import Summary, medal_table, replies_table
from openenv.evaluation import evaluate as run_evaluation
from openenv.evaluation.intervals import EpisodeResult
from openenv.evaluation.policy_player import EpisodeObserver
from openenv.evaluation.tables import CUT_OFF_REMEDY, STOPPED_REMEDY, table_console
from openenv.formats.json_text import json_text
from openenv.pages.live_results import LiveResults
from openenv.policies.registry import EndpointOptions, policy_named
from openenv.schema.legal_actions import REFUSED_REMEDY
from openenv.text.interface import TextInterface

log = logging.getLogger(__name__)

_FAULT = "step: step() "
"""Begins reasons in which the server names a fault of the environment's code, not a refused action."""
EXAMPLE = "Example: `openenv eval openspiel --game catch --policy random,stay,smart,learning --episodes 50`"


@with_option_groups
def evaluate(
    environment: str = typer.Argument(
        "openspiel", help=f"Play in this environment: {FORMS}.", autocompletion=environment_names
    ),
    policy: str = typer.Option(
        "random",
        autocompletion=policy_lists,
        help="Compare these policies, separated by commas: random, stay, smart, learning, chart, mcts, always:ACTION, "
        "llm:MODEL@URL of an OpenAI-compatible endpoint, such as llm:qwen3@http://localhost:8001/v1, or "
        "agent:PROGRAM@MODEL@URL, an agent's program (FILE.py:FUNCTION, a command, a run's YAML) with that model.",
    ),
    played: EpisodeOptions = EpisodeOptions(),
    model: ModelOptions = ModelOptions(),
    output: ResultOptions = ResultOptions(),
    page: PageOptions = PageOptions(),
) -> None:
    """Play equal episodes with each policy. Print a ranking with 95 % intervals and draw a plot."""
    named = replace(named_environment(environment, text=played.text), success_return=played.success_return)
    keywords = played.reset_kwargs(environment)
    names = [name.strip() for name in policy.split(",")]
    results = LiveResults(names, played.episodes)
    with named.served() as served, ExitStack() as pages:
        make = partial(_make, served.text, model.endpoint)
        policies = [make(name, played.seed) for name in names]
        saved = (
            SavedEpisodes(output.save, environment, served, keywords, resumes=output.resume) if output.save else None
        )
        shown = None
        if output.web:
            from openenv.cli.pages.evaluation import evaluation_page

            shown = pages.enter_context(evaluation_page(
                environment, served, policies, make, results,
                seed=played.seed, reset_kwargs=keywords, max_steps=played.max_steps, page=page,
            ))  # fmt: skip
        with Progress(console=Console(stderr=True, emoji=False), transient=True) as progress:
            summaries: list[Summary] = []
            playing = run_evaluation(
                served.base_url, served.client, policies, played.episodes, played.seed, num_sessions=played.sessions,
                reset_kwargs=keywords, text=served.text, on_progress=_reporter(progress),
                on_summary=partial(_keep, summaries), max_steps=played.max_steps,
                observers_for=partial(_observers, saved, results),
                known_for=partial(_known_episodes, saved, results, played.seeds),
            )  # fmt: skip
            try:
                run_async_safely(playing)
            except BaseException as error:  # Ctrl-C, a server that is gone, a disk that is full
                progress.stop()
                _add_unfinished(summaries, results, policies)
                if isinstance(error, KeyboardInterrupt) or any(one.num_episodes for one in summaries):
                    _report_stop(summaries, len(policies) * played.episodes, is_saved=saved is not None)
                raise
            finally:
                progress.stop()
                for path in saved.paths if saved else ():
                    typer.echo(f"episodes: {path}", err=True)
                show(summaries, output.plot, as_json=output.as_json)  # also of the episodes that had ended
        if shown is not None:
            shown.wait()
    _report_failures(summaries)


def _keep(summaries: list[Summary], summary: Summary) -> None:
    summaries.append(summary)
    log.info("finished policy=%s episodes=%d", summary.name, summary.num_episodes)


def _add_unfinished(summaries: list[Summary], results: LiveResults, policies: Sequence[Any]) -> None:
    """Add the policies that have not finished, with the episodes that have ended."""
    so_far = [replace(one, name=of.name) for one, of in zip(results.summaries(), policies, strict=True)]
    summaries += [one for one in so_far[len(summaries) :] if one.num_played]


def _report_stop(summaries: list[Summary], wanted: int, *, is_saved: bool) -> None:
    num_ended = sum(one.num_played for one in summaries)
    remedy = "--resume goes on" if is_saved else "--save DIR keeps them, for --resume to go on"
    typer.echo(f"stopped after {num_ended} of {wanted} episodes. With the same command, {remedy}.", err=True)


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


def _make(text: TextInterface[Any, Any], endpoint: EndpointOptions, name: str, seed: int) -> Any:
    """A policy by its name on the command line."""
    if name.startswith("agent:"):
        from openenv.rl.agents.policy import program_policy  # the settings of training: other policies need none

        return program_policy(name, text, endpoint)
    return policy_named(name, text, seed, endpoint)


def show(summaries: list[Summary], plot: Path, *, as_json: bool) -> None:
    """Print the summaries as a table or as JSON, and draw the plot. Without a valid episode, do nothing."""
    if not any(summary.num_episodes for summary in summaries):
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


def _reporter(progress: Progress) -> Callable[[str, int, int], None]:
    tasks: dict[str, Any] = {}

    def report(name: str, ended: int, total: int) -> None:
        if name not in tasks:
            tasks[name] = progress.add_task(name, total=total)
        progress.update(tasks[name], completed=ended)

    return report
