"""The status of a run: a file in its folder, which is written again every few seconds while the run lasts."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from openenv.formats.json_text import json_text
from openenv.rl.reports.results import replace_text
from openenv.rl.reports.run_files import read_run_json
from openenv.rl.waiting.waits import Event, Wait

_NAME = "status.json"
_OLD_S = 30.0
"""Age from which a status is not that of this moment."""


@dataclass(frozen=True, kw_only=True)
class PartStatus:
    """One process of a run."""

    name: str
    """Such as generator 0."""
    pid: int
    node: str = ""
    """The address of its machine; empty: that of the driver."""
    silent_s: float = 0.0
    """Seconds since it has answered."""
    answers: bool = True
    """Whether it has answered since it was started: otherwise it begins, or has ended."""
    starts: int = 1
    """How often it was started."""
    waiting: int = 0
    """Requests that wait in it."""
    waits: Sequence[Wait] = ()
    num_ended: int = 0
    """Waits in it that have had an end."""
    tokens: Mapping[str, int] = field(default_factory=dict)
    """Tokens that each generator has sampled for it."""


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """What a run does at one moment."""

    time_s: float
    """When it was written, in seconds since 1970."""
    pid: int
    """Of the driver."""
    step: int
    versions: Mapping[str, int]
    """Of the weights: those of the trainer, and those that play."""
    steps_waiting: int
    """Steps that are played and wait for the trainer."""
    waits: Sequence[Wait]
    parts: Sequence[PartStatus]
    tokens_per_s: Mapping[str, float]
    """Of each generator, since the status before."""
    events: Sequence[Event]

    @classmethod
    def read(cls, run_dir: Path) -> "Self | None":
        """The newest status of a run; None without one."""
        path = run_dir / _NAME
        if not path.exists():
            return None
        data = read_run_json(path)
        data["waits"] = [Wait(**one) for one in data["waits"]]
        data["events"] = [Event(**one) for one in data["events"]]
        parts = [{**one, "waits": [Wait(**wait) for wait in one["waits"]]} for one in data["parts"]]
        data["parts"] = [PartStatus(**one) for one in parts]
        return cls(**data)

    def write(self, run_dir: Path) -> None:
        """Replace the status of the run."""
        replace_text(run_dir / _NAME, json_text(self.as_json()))

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        data = asdict(self)
        data["waits"] = [wait._asdict() for wait in self.waits]
        data["events"] = [event._asdict() for event in self.events]
        for part, own in zip(data["parts"], self.parts, strict=True):
            part["waits"] = [wait._asdict() for wait in own.waits]
        return data

    @property
    def age_s(self) -> float:
        """Seconds since it was written."""
        return max(0.0, time.time() - self.time_s)

    @property
    def is_old(self) -> bool:
        """Whether the run, if it runs, cannot even report."""
        return self.age_s > _OLD_S

    @property
    def all_waits(self) -> list[Wait]:
        """Those of all processes, the longest first."""
        waits = [*self.waits, *(wait for part in self.parts for wait in part.waits)]
        return sorted(waits, key=lambda wait: wait.longest_s, reverse=True)
