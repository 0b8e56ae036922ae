"""Training of one environment with one seed, in a process of its own. A finished run is kept."""

import json
import multiprocessing
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from benchmarks.learning.tasks import SETS, Measure
from benchmarks.report import machine
from openenv.envs.openspiel_env.blackjack_replies import reply_share
from openenv.rl.config_file import load_config
from openenv.rl.reports.results import PlayerResult
from openenv.rl.run import run_blocking


@dataclass(frozen=True)
class Run:
    """One seed of a task."""

    task: str
    seed: int
    minutes: float
    random: PlayerResult | None = None
    before: PlayerResult | None = None
    """The model before GRPO."""
    trained: PlayerResult | None = None
    error: str = ""
    """Why the run failed; empty if it did not."""
    commit: str = ""
    """Of the program that ran, shortened; with a `+` where files differed from it."""
    machine: str = ""

    def value(self, player: str, measure: Measure) -> float | None:
        """A measure of a player: random, before or trained; None if it was not played."""
        result: PlayerResult | None = getattr(self, player)
        if result is None:
            return None
        if measure == "hit_to_11":
            return reply_share(result.decisions, "hit", "hard", range(4, 12))
        if measure == "hit_from_17":
            return reply_share(result.decisions, "hit", "hard", range(17, 22))
        return float(getattr(result, measure))


def train(tasks: str, name: str, seed: int, config: Path, folder: Path) -> list[PlayerResult]:
    """Train a task of a set with one seed; return the results of all players. folder: of the runs."""
    task = SETS[tasks][name]
    settings = load_config(
        config,
        name=f"{name}-{seed}",
        seed=seed,
        env={"name": task.env, "reset": task.reset},
        checkpoint={"folder": str(folder), "interval": 0},
    )
    if task.num_games is not None:
        settings = replace(settings, evaluation=replace(settings.evaluation, num_games=task.num_games))
    return run_blocking(settings).results


def run_apart(tasks: str, name: str, seed: int, config: Path, folder: Path, records: Path) -> Run:
    """`train` in a process of its own. An error, or the end of the process, is part of the run.

    A run that did not fail is written to the folder `records`, and read from there while the configuration is the same:
    the hours of all runs may be spread over several calls. The program may be another one then; `Run.commit` names it.
    """
    known = recorded(tasks, name, seed, config, records)
    if known is not None:
        return known
    program = {"commit": _commit(), "machine": "{processor}, {cores} cores".format(**machine())}
    began = time.perf_counter()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _end_with_parent) as executor:
        future = executor.submit(train, tasks, name, seed, config, folder)
        error = future.exception()
    minutes = (time.perf_counter() - began) / 60
    if error is not None:
        return Run(name, seed, minutes, error=f"{type(error).__name__}: {error}", **program)
    players = {result.name if result.role == "baseline" else result.role: result for result in future.result()}
    played = {"random": players["random"], "before": players["before"], "trained": players["after"]}
    run = Run(name, seed, minutes, **played, **program)
    records.mkdir(parents=True, exist_ok=True)
    written = json.dumps({"settings": _settings(tasks, name, config), "run": asdict(run)}, indent=1)
    _record(name, seed, records).write_text(written + "\n")
    return run


def recorded(tasks: str, name: str, seed: int, config: Path, records: Path) -> Run | None:
    """The run of a task with a seed that was recorded with this configuration, if there is one."""
    record = _record(name, seed, records)
    if not record.is_file():
        return None
    known = json.loads(record.read_text())
    if known["settings"] != _settings(tasks, name, config):
        return None
    fields = known["run"]
    players = {name: PlayerResult(**fields[name]) for name in ("random", "before", "trained") if fields.get(name)}
    return Run(**{**fields, **players})


def _record(name: str, seed: int, records: Path) -> Path:
    return records / f"{name}-{seed}.json"


def _end_with_parent() -> None:
    """Let this process end when the one that started it has ended, also if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _settings(tasks: str, name: str, config: Path) -> Mapping[str, Any]:
    """All that a run depends on, its seed and the program excepted."""
    task = SETS[tasks][name]
    env = task.env.removeprefix(f"{Path(__file__).parent}/")
    return {
        "env": env, "reset": task.reset, "num_games": task.num_games, "config": yaml.safe_load(config.read_text())
    }  # fmt: skip


def _commit() -> str:
    """The commit of this checkout, shortened, with a `+` where files differ from it."""
    here = Path(__file__).parent
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"], cwd=here, capture_output=True, text=True
    )
    return described.stdout.strip() or "no checkout"
