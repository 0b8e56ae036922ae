"""`openenv train`: GRPO on an environment, from one YAML or from the names of environment and model."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from openenv.auto.environment import named_environment
from openenv.auto.resolver import FORMS
from openenv.cli.completion import environment_names
from openenv.cli.live_view import live_view
from openenv.cli.training_plan import print_plan
from openenv.envs import catalog
from openenv.evaluation.intervals import Interval, mean_over_runs
from openenv.evaluation.tables import NO_RETURN, interval_text, number_text, table_console
from openenv.rl.config import Config
from openenv.rl.config.engine import EngineConfig, EngineName
from openenv.rl.config_file import load_config, require_model
from openenv.rl.engines.launched import is_follower, number_of_processes
from openenv.rl.planning.config_text import config_yaml
from openenv.rl.reports.best_checkpoint import best_line
from openenv.rl.reports.results import PlayerResult, declare_success, read_rows
from openenv.rl.run import (
    RunResult,
    config_without_file,
    run_blocking,
    seed_runs,
    with_environment,
    with_game,
)

EXAMPLE = (
    "Examples: `openenv train guess --model models/smollm2-135m`, `openenv train run.yaml --game catch`, "
    "`openenv train guess --model models/smollm2-135m --plan`"
)
_YAML = (".yaml", ".yml")


def train(
    what: str = typer.Argument(
        None,
        metavar="FILE|ENV",
        autocompletion=environment_names,
        help="Train as this YAML file describes, or in this environment: a bundled name, a folder, MODULE:CLASS, "
        "FILE.py:CLASS, a URL or docker:IMAGE.",
    ),
    target: Path = typer.Argument(None, metavar="[NEW_FILE]", help="The file of `--init` (default NAME.yaml)."),
    model: str = typer.Option(
        None,
        metavar="PATH",
        help="Train this pretrained model: a folder, a GGUF file or a hub id (default: the model in the file, "
        "otherwise a tiny one that the run creates).",
    ),
    env: str = typer.Option(
        None,
        help="Train in this environment (default: the environment in the file).",
        autocompletion=environment_names,
    ),
    game: str = typer.Option(None, help="Train on this game of the environment (default: the game in the file)."),
    steps: int = typer.Option(None, min=1, help="Run this many optimizer steps (default: the number in the file)."),
    seed: int = typer.Option(
        None, min=0, help="Seed of weights, deals and sampling (default: the number in the file)."
    ),
    seeds: int = typer.Option(1, min=1, help="Make this many runs with consecutive seeds, and compare them."),
    engine: EngineName = typer.Option(
        None, help="Where the work is done: in this process, or on a Ray cluster (default: that of the file)."
    ),
    resume: bool = typer.Option(
        False, "--resume", help="Continue the run of the same name (default: start a new one)."
    ),
    init: bool = typer.Option(False, "--init", help="Write the YAML of the run, and do not train (default: train)."),
    plan: bool = typer.Option(
        False, "--plan", help="Show the memory that the run needs, and do not train (default: train)."
    ),
) -> None:
    """Train a language model to play, compare it with baselines before and after, and write a report."""
    if number_of_processes() > 1 and seeds > 1:
        raise typer.BadParameter(
            "torchrun starts the processes of one run. Start each seed by itself.", param_hint="--seeds"
        )
    if is_follower():
        if not (init or plan):
            from openenv.rl.engines.followers import follow  # imports torch

            follow()
        return
    if target is not None and not init:
        raise typer.BadParameter(f"{target}: a second file is only for --init.", param_hint="[NEW_FILE]")
    run = _run_of(what, model, env)
    if game is not None:
        run = with_game(run, game)
    if steps is not None:
        training = dataclasses.replace(run.trainer.training, steps=steps)
        run = dataclasses.replace(run, trainer=dataclasses.replace(run.trainer, training=training))
    if engine is not None:
        of_file = run.engine if run.engine.name == engine else EngineConfig(name=engine, parts=run.engine.parts)
        run = dataclasses.replace(run, engine=of_file)
    if seed is not None:
        run = dataclasses.replace(run, seed=seed)
    if init:
        _write(run, target or Path(f"{run.name}.yaml"))
    elif plan:
        print_plan(run)
    else:
        results = [_train(one, resume) for one in (seed_runs(run, seeds) if seeds > 1 else [run])]
        if seeds > 1:
            table_console().print(table_over_runs([result.results for result in results]))
        if any(result.failure for result in results):
            raise typer.Exit(1)


def _run_of(what: str | None, model: str | None, env: str | None) -> Config:
    """The run of a file, or of an environment without one."""
    remedy = "give a YAML file or an environment, such as `openenv train guess --model PATH`"
    if not what:
        raise typer.BadParameter(f"nothing to train in: {remedy}.", param_hint="FILE|ENV")
    if model is not None:
        _require(lambda: require_model(model), "--model")
    if what.endswith(_YAML) or (Path(what).is_file() and not what.endswith(".py")):
        if not Path(what).is_file():
            raise typer.BadParameter(
                f"there is no file {what!r}. Write one with `openenv train ENV --init {what}`.", param_hint="FILE|ENV"
            )
        run = load_config(what, model_path=model)
        return run if env is None else with_environment(run, env)
    if env is not None:
        raise typer.BadParameter(f"{what!r} is an environment already. Leave --env out.", param_hint="--env")
    _require(lambda: _require_environment(what), "FILE|ENV")
    return config_without_file(what, model or "")


def _require(check: Callable[[], object], parameter: str) -> None:
    """Make a refusal that of the parameter."""
    try:
        check()
    except (ValueError, LookupError) as error:
        raise typer.BadParameter(str(error), param_hint=parameter) from error


def _require_environment(name: str) -> None:
    """Raise LookupError if no environment has the name, as far as that is known before it is served."""
    try:
        named_environment(name)
    except LookupError as error:
        raise LookupError(f"{error} An environment is {FORMS}. A run is described by a YAML file.") from error


def _write(run: Config, file: Path) -> None:
    """Write the YAML of a run, and say how to train with it."""
    if file.exists():
        raise typer.BadParameter(f"{file} exists. Give another name: `--init OTHER.yaml`.", param_hint="--init")
    file.write_text(config_yaml(run), encoding="utf-8")
    typer.echo(f"wrote {file}. Train with `openenv train {file}`.")


def _train(config: Config, resume: bool) -> RunResult:
    """Make one run and print its results."""
    terminal, began = Console(stderr=True, emoji=False), time.time()
    if number_of_processes() > 1:
        terminal.print(f"trainer: {number_of_processes()} processes", highlight=False)
    has_view = terminal.is_terminal and not terminal.is_dumb_terminal
    try:
        with live_view(config.name, terminal) if has_view else contextlib.nullcontext(_TenLines()) as on_progress:
            result = run_blocking(config, resume=resume, on_progress=on_progress)
    except KeyboardInterrupt:
        settings = config.run_dir / "config.json"
        if not resume and not (settings.exists() and settings.stat().st_mtime >= began):  # the folder of an earlier run
            typer.echo("stopped before the run had begun: there is nothing to resume.", err=True)
            raise
        steps, report = read_rows(config.run_dir / "metrics.jsonl"), config.run_dir / "report.html"
        last = steps[-1]["step"] if steps else 0
        typer.echo(f"stopped after step {last}. Report: {report}. Go on with the same command and --resume.", err=True)
        raise
    table_console().print(results_table(result.results))
    for line in remarks(result.results):
        typer.echo(line)
    if (best := best_line(result.run_dir)) is not None:
        typer.echo(best)
    typer.echo(f"report: {result.report}")
    if result.failure:
        typer.echo(f"Error: {result.failure}", err=True)
    return result


def results_table(results: Sequence[PlayerResult]) -> Table:
    """Return a table of the results in the order of the run, with 95 % intervals. Exact values have none."""
    has_rates = declare_success(results)
    title = "Win rate and mean return of the game" if has_rates else "Mean return of the game"
    table = Table(title=f"{title}, with 95 % intervals", box=box.SIMPLE, pad_edge=False)
    table.add_column("player", no_wrap=True)
    for heading in (*["win rate"] * has_rates, "mean return", "games"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in results:
        table.add_row(
            row.name,
            *[_rate_text(row.win_rate, row.win_interval)] * has_rates,
            _return_text(row.mean_return, row.return_interval),
            "exact" if row.role == "optimum" else f"{row.num_games}",
        )
    return table


def table_over_runs(runs: Sequence[Sequence[PlayerResult]]) -> Table:
    """Return a table of the mean results of runs with different seeds, with 95 % intervals over the runs."""
    title = f"Means of {len(runs)} runs, with 95 % intervals over the runs"
    table = Table(title=title, box=box.SIMPLE, pad_edge=False)
    table.add_column("player", no_wrap=True)
    has_rates = declare_success([row for rows in runs for row in rows])
    for heading in (*["win rate"] * has_rates, "mean return", "runs"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in dict.fromkeys(row.name for rows in runs for row in rows if row.role != "optimum"):
        rows = [row for results in runs for row in results if row.name == name and not math.isnan(row.mean_return)]
        win_rate, win_interval = mean_over_runs([row.win_rate for row in rows])
        mean_return, return_interval = mean_over_runs([row.mean_return for row in rows])
        table.add_row(
            name,
            *[_rate_text(win_rate, win_interval)] * has_rates,
            _return_text(mean_return, return_interval),
            f"{len(rows)}",
        )
    return table


def remarks(results: Sequence[PlayerResult]) -> Iterator[str]:
    """Yield what the table leaves out: games ended by an illegal reply, replies that were cut off, games that failed in
    the environment, and what the environment remarks on the model's decisions."""
    for row in results:
        if row.num_unparseable:
            ended = f"{row.name}: {row.num_unparseable} games ended by a reply that is not a legal action"
            yield f"{ended} (not won, and left out of the mean return)"
        if row.num_cut_off_replies:
            yield f"{row.name}: {row.num_cut_off_replies} replies were cut off: raise max_res_tokens"
        if row.num_invalid:
            yield f"{row.name}: {row.num_invalid} further games failed in the environment (not counted)"
        if row.role in ("before", "after"):
            yield from (f"{row.name}: {remark}" for remark in catalog.remarks(row.decisions))


def _rate_text(rate: float, interval: Interval | None) -> str:
    percent = None if interval is None else (100 * interval[0], 100 * interval[1])
    return number_text(rate, ".2%", _between(percent, ".1f"))


def _return_text(mean: float, interval: Interval | None) -> str:
    digits = 4 if abs(mean) < 10 else 2
    return number_text(mean, f"+.{digits}f", _between(interval, f"+.{digits - 1}f"), none=NO_RETURN)


def _between(interval: Interval | None, form: str) -> str:
    ends = interval_text(interval, form, ", ")
    return f" [{ends}]" if ends else ""


class _TenLines:
    """Prints ten lines for each phase of a run, with the latest metrics: for a log file instead of a terminal."""

    def __init__(self) -> None:
        self._tenths: dict[str, int] = {}

    def __call__(self, phase: str, done: int, total: int, known: dict[str, Any]) -> None:
        if phase == "train" and done == 2 and "minutes_to_end" in known:
            pace = f"{known['s_a_step']:.1f} s a step, {known['minutes_to_end']:.1f} minutes to the end"
            typer.echo(f"train: step {known['step']}: {pace}", err=True)
        tenth = 10 * done // max(1, total)
        if self._tenths.get(phase) != tenth:
            self._tenths[phase] = tenth
            typer.echo(f"{phase}: {done} of {total} {' '.join(_figures(known))}".rstrip(), err=True)


def _figures(known: dict[str, Any]) -> Iterator[str]:
    """Yield the figures that are shown beside a phase."""
    if known.get("frac_reward_zero_std") is not None:
        yield f"groups with a signal {1 - known['frac_reward_zero_std']:.0%}"
    for key in ("win_rate", "return", "kl"):
        if known.get(key) is not None:
            yield f"{key} {known[key]:.3f}"
    if "minutes_left" in known:
        yield f"{known['minutes_left']:.1f} min left"
