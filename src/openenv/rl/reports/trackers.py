"""Experiment trackers behind `report_to`: wandb, trackio and TensorBoard receive the metrics of every step.

Names are those that TRL's GRPOTrainer sends: `train/reward`, `train/completions/mean_length`, `train/global_step`, and
so on. A tracker that cannot start ends the run before it begins; one that fails later never ends the training.
"""

import importlib.util
import logging
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, Self

from openenv.core.errors import OpenEnvError
from openenv.formats.json_text import json_text
from openenv.installation import install_line
from openenv.rl.config import Config, TrackerName
from openenv.rl.reports.results import replace_text

log = logging.getLogger(__name__)

GLOBAL_STEP = "train/global_step"
"""The x-axis of all metrics, as in transformers."""


class TrackerFailed(OpenEnvError):
    """A tracker of `report_to` could not start."""


class Tracker(Protocol):
    """One run of an experiment tracker."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Send values of a step."""

    def log_table(self, name: str, rows: Sequence[Mapping[str, Any]], step: int) -> None:
        """Send a table of a step, if the tracker has tables. All rows have the same keys."""

    def close(self) -> None:
        """Send what is left, and end the run."""


class WandbTracker:
    """A run of Weights & Biases. It reads `WANDB_MODE`, `WANDB_API_KEY` and its other variables itself."""

    def __init__(self, config: Config, run_id: str, first_step: int) -> None:
        """run_id: a run of this id is continued if there is one."""
        import wandb

        self._wandb = wandb
        self._run = wandb.init(
            project=config.project,
            name=config.name,
            id=run_id,
            resume="allow",
            dir=config.run_dir,
            settings=wandb.Settings(console="off"),  # the live view redraws the terminal ten times a second
        )
        settings: Any = self._run.config
        settings.update(asdict(config), allow_val_change=True)
        self._run.define_metric(GLOBAL_STEP)
        self._run.define_metric("*", step_metric=GLOBAL_STEP, step_sync=True)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Send values of a step."""
        self._run.log({**values, GLOBAL_STEP: step})

    def log_table(self, name: str, rows: Sequence[Mapping[str, Any]], step: int) -> None:
        """Send a table of a step."""
        table = self._wandb.Table(columns=list(rows[0]), data=[list(row.values()) for row in rows])
        self._run.log({name: table, GLOBAL_STEP: step})

    def close(self) -> None:
        """Send what is left, and end the run."""
        self._run.finish()


class TrackioTracker:
    """A run of trackio, on this machine, or in the Space of `TRACKIO_SPACE_ID`."""

    def __init__(self, config: Config, run_id: str, first_step: int) -> None:
        """run_id: part of the run's name, by which trackio finds a run to continue."""
        import trackio

        self._trackio = trackio
        self._run = trackio.init(
            project=config.project,
            name=f"{config.name}-{run_id}",
            config=asdict(config),
            resume="allow",
            embed=False,
        )

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Send values of a step."""
        self._run.log({**values, GLOBAL_STEP: step}, step=step)

    def log_table(self, name: str, rows: Sequence[Mapping[str, Any]], step: int) -> None:
        """Send a table of a step."""
        table = self._trackio.Table(columns=list(rows[0]), data=[list(row.values()) for row in rows])
        self._run.log({name: table}, step=step)

    def close(self) -> None:
        """Send what is left, and end the run."""
        self._run.finish()


class TensorboardTracker:
    """Event files in the folder `tensorboard` of the run. A resumed run replaces the steps that it makes again."""

    def __init__(self, config: Config, run_id: str, first_step: int) -> None:
        """first_step: events of later steps are purged."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(config.run_dir / "tensorboard"), purge_step=first_step + 1)
        self._writer.add_text("config", f"```json\n{json_text(asdict(config), indent=2)}\n```")

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write values of a step."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def log_table(self, name: str, rows: Sequence[Mapping[str, Any]], step: int) -> None:
        """TensorBoard has no tables."""

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


_TRACKERS: dict[TrackerName, Callable[[Config, str, int], Tracker]] = {
    "wandb": WandbTracker,
    "trackio": TrackioTracker,
    "tensorboard": TensorboardTracker,
}


def require_installed(names: Sequence[TrackerName]) -> None:
    """Raise ImportError, with what to install, for a tracker whose library is missing."""
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:  # without an origin: a folder that happens to have this name
            raise ImportError(f"report_to: {name} is not installed: {install_line(name)}")


class Trackers:
    """All trackers of a run. The first failure of each is logged as a warning; training goes on."""

    def __init__(self, trackers: Mapping[str, Tracker]) -> None:
        """trackers: by name."""
        self._trackers = trackers
        self._failed: set[str] = set()

    @classmethod
    def open(cls, config: Config, first_step: int = 0) -> Self:
        """Open the trackers of `report_to`. A resumed run continues the tracker's run where the tracker can.

        first_step: the step that the run continues from. Raises TrackerFailed for a tracker that cannot start.
        """
        opened: dict[str, Tracker] = {}
        run_id = _run_id(config.run_dir) if config.report_to else ""
        for name in config.report_to:
            try:
                opened[name] = _TRACKERS[name](config, run_id, first_step)
            except Exception as error:
                cls(opened).close()
                remedy = (
                    "Log in, or set WANDB_MODE=offline." if name == "wandb" else "Remove it from report_to to go on."
                )
                raise TrackerFailed(f"report_to: {name} could not start: {error} {remedy}") from error
        return cls(opened)

    def log_step(self, row: Mapping[str, Any]) -> None:
        """Send the numbers of a step's metrics, with the prefix `train/` unless they are of an evaluation (`eval/`).

        The row has the key `step`.
        """
        values = {_tracked(key): value for key, value in numbers(row).items() if key != "step"}
        self._send(lambda tracker: tracker.log(values, row["step"]))

    def log_evaluation(self, player: str, row: Mapping[str, Any], step: int) -> None:
        """Send the numbers of an evaluation, with the prefix `eval/<player>/`."""
        values = {f"eval/{player}/{key}": value for key, value in numbers(row).items()}
        self._send(lambda tracker: tracker.log(values, step))

    def log_completions(self, rows: Sequence[Mapping[str, Any]], step: int) -> None:
        """Send a table of sample completions to the trackers that have tables, under TRL's name `completions`."""
        if rows:
            self._send(lambda tracker: tracker.log_table("completions", rows, step))

    def close(self) -> None:
        """Send what is left, and end the trackers' runs."""
        self._send(lambda tracker: tracker.close())

    def _send(self, send: Callable[[Tracker], None]) -> None:
        for name, tracker in self._trackers.items():
            try:
                send(tracker)
            except Exception as error:  # noqa: BLE001  no failure of a tracker may end a training of hours
                if name not in self._failed:
                    log.warning("report_to: %s failed, training continues: %s: %s", name, type(error).__name__, error)
                self._failed.add(name)


def _tracked(key: str) -> str:
    return key if key.startswith("eval/") else f"train/{key}"


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a row: no texts, no counts by situation, no unknown values."""
    return {key: value for key, value in row.items() if isinstance(value, int | float) and math.isfinite(value)}


def _run_id(run_dir: Path) -> str:
    """The id of the run in trackers, which is kept in its folder, so that a resumed run has the same."""
    path = run_dir / "tracker_id.txt"
    if not path.exists():
        replace_text(path, uuid.uuid4().hex[:12])
    return path.read_text(encoding="utf-8")
