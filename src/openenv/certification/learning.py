"""The proof that a model learns in an environment: a tiny one is trained, with several seeds."""

import dataclasses
import importlib.util
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv.auto.resolver import resolve
from openenv.certification.subject import Proof, Subject
from openenv.core.errors import OpenEnvError
from openenv.evaluation.quality.target import failed, passed, skipped, warned
from openenv.installation import install_line

if TYPE_CHECKING:
    from openenv.rl.config import Config
    from openenv.rl.reports.results import PlayerResult

_GAMES = 400
_FILE = "train.yaml"


def learning(subject: Subject, minutes: float, seeds: int, on_progress: Callable[[str], None]) -> Proof:
    """The tiny model earns more after training than before it, in runs with different seeds.

    A run has the settings of the folder's `train.yaml`, or those of `openenv train ENV`. Before and after, the model
    samples its replies. The model has learned where the mean rise of the runs is above 0 with its 95 % interval, and no
    run has fallen. Intervals are those of independent means: half-widths are added as squares.

    Args:
        subject: the environment.
        minutes: of each run, its evaluations before training included.
        seeds: number of runs.
        on_progress: called with what is done.
    """
    if importlib.util.find_spec("torch") is None:
        return Proof(name="learning", result=skipped(f"needs torch: {install_line('train')}"))
    from openenv.rl.config import ConfigError
    from openenv.rl.run import run_blocking  # imports numpy and more

    rises, shown = list[dict[str, Any]](), list[str]()
    with tempfile.TemporaryDirectory(prefix="openenv-certify-") as folder:
        for number in range(seeds):
            config = _config(subject, minutes, Path(folder), number)

            def report(phase: str, done: int, total: int, _: dict[str, Any], number: int = number) -> None:
                on_progress(f"learning, seed {number + 1} of {seeds}: {phase}, {done} of {total}")

            try:
                trained = run_blocking(config, on_progress=report)
            except (OpenEnvError, ConfigError) as error:
                return Proof(name="learning", result=failed(str(error), "see that `openenv train` works with it"))
            before = next(one for one in trained.results if one.role == "before")
            after = next(one for one in trained.results if one.role == "after")
            if not (_has_played(before) and _has_played(after)):
                seen = f"seed {number + 1}: no game before or after training was played to its end in its time"
                return Proof(name="learning", result=warned(seen, "give more --minutes"))
            rises.append({**_rise(before, after, trained.steps), "curve": _curve(trained.run_dir, before)})
            shown.append(f"{_value(before):.3g} to {_value(after):.3g} in {trained.steps} steps")
    rise = sum(one["after"] - one["before"] for one in rises) / seeds
    half_width = math.sqrt(sum(one["half_width"] ** 2 for one in rises)) / seeds
    unit = rises[0]["unit"]
    seen = f"{unit} {rise:+.3g} ± {half_width:.2g} in the mean of {seeds} seeds: {'; '.join(shown)}"
    figures = {"unit": unit, "minutes": minutes, "rise": rise, "half_width": half_width, "seeds": rises}
    remedy = "give more --minutes, or look at the transcripts of `openenv train`: a tiny model may be too small"
    has_learned = rise > half_width and all(one["after"] > one["before"] for one in rises)
    return Proof(name="learning", result=passed(seen) if has_learned else warned(seen, remedy), figures=figures)


def _config(subject: Subject, minutes: float, folder: Path, number: int) -> "Config":
    from openenv.rl.config_file import load_config
    from openenv.rl.run import config_without_file

    source = resolve(subject.named.name)
    file = source.folder / _FILE if source.kind == "folder" else None
    if file is not None and file.is_file():
        config = load_config(file)
        env = dataclasses.replace(config.env[0], name=subject.named.name)
    else:
        config = config_without_file(subject.named.name)
        env = config.env[0]
    return dataclasses.replace(
        config,
        name=f"seed{number}",
        seed=subject.seed + number,
        max_minutes=minutes,
        env=[dataclasses.replace(env, reset={**env.reset, **subject.reset})],
        checkpoint=dataclasses.replace(config.checkpoint, folder=str(folder)),
        evaluation=dataclasses.replace(config.evaluation, num_games=_GAMES, temperature=1.0, interval=0),
        report_to=[],
    )


def _rise(before: "PlayerResult", after: "PlayerResult", steps: int) -> dict[str, Any]:
    """What training has changed, and half the width of the 95 % interval of the difference."""
    has_rate = not math.isnan(before.win_rate)
    intervals = [(one.win_interval if has_rate else None) or one.return_interval for one in (before, after)]
    widths = [(one[1] - one[0]) / 2.0 for one in intervals if one is not None]
    return {
        "unit": "win rate" if has_rate else "mean return",
        "before": _value(before),
        "after": _value(after),
        "half_width": math.hypot(*widths),
        "steps": steps,
        "games": after.num_games,
    }


def _has_played(result: "PlayerResult") -> bool:
    """Whether it has a valid episode, so that there are a mean and its interval."""
    interval = result.return_interval
    return interval is not None and math.isfinite(interval[1] - interval[0]) and math.isfinite(result.mean_return)


def _curve(run_dir: Path, result: "PlayerResult") -> list[float]:
    """The win rate, or the mean return, of the games of each step's batch."""
    from openenv.rl.reports.results import read_rows

    key = "return" if math.isnan(result.win_rate) else "win_rate"
    return [round(row[key], 3) for row in read_rows(run_dir / "metrics.jsonl") if row.get(key) is not None]


def _value(result: "PlayerResult") -> float:
    return result.win_rate if not math.isnan(result.win_rate) else result.mean_return
