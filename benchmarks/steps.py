"""One step of one session, and of 32, beside the published package: `python -m benchmarks steps`."""

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from benchmarks.peers import HERE, Figures, Sides, play, serving
from benchmarks.report import Row


@dataclass(frozen=True)
class Scenario:
    """What is measured in one row."""

    game: str
    mode: str
    sessions: int
    target: float

    def __str__(self) -> str:
        return f"{self.game}, {self.mode}, {self.sessions} session{'s' * (self.sessions > 1)}"


MODES = (("sync", 1, 8), ("async", 1, 6), ("uvloop", 1, 6), ("async", 32, 10), ("uvloop", 32, 10))
SCENARIOS = [Scenario(game, mode, sessions, target) for game in ("echo", "catch") for mode, sessions, target in MODES]


def rows(sides: Sides) -> list[Row]:
    """A row for each scenario, its processor time, its p99 at 32 sessions, and what the machine allows."""
    shown: list[Row] = []
    with ExitStack() as stack:
        servers = {
            (side, game): stack.enter_context(serving(sides, side, game))
            for side in ("ours", "published")
            for game in ("echo", "catch")
        }
        for scenario in SCENARIOS:
            measures = {
                side: partial(play, sides, servers[side, scenario.game], scenario.mode, scenario.sessions)
                for side in ("ours", "published")
            }
            measured = sides.in_turns(str(scenario), {**measures, "floor": partial(floor, sides, scenario.sessions)})
            shown += _rows_of(scenario, measured["ours"], measured["published"], measured["floor"])
    return shown


def floor(sides: Sides, what: int | str) -> Figures:
    """One turn of a bare client and a bare server. what: how many sessions, or `open`."""
    command = [sys.executable, "-m", "benchmarks.floor", str(min(sides.seconds, 1.0)), str(what)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parent)
    figures: Figures = json.loads(done.stdout)
    return figures


def _rows_of(scenario: Scenario, ours: Figures, theirs: Figures, floor: Figures) -> list[Row]:
    sides = (ours, theirs)
    p50, p99 = (" / ".join(f"{side[key]:.0f}" for side in sides) for key in ("p50_us", "p99_us"))
    note = f"p50 {p50} us, p99 {p99} us"
    if scenario.mode == "sync" or scenario.sessions > 1:
        note += f"; floor {floor['rate']:,.0f} /s, p50 {floor['p50_us']:.0f} us"
    rate = Row(str(scenario), "/s", ours["rate"], theirs["rate"], scenario.target, note)
    if scenario.sessions > 1:
        least = f"floor {floor['p99_us']:.0f} us"
        return [rate, Row(f"{scenario}: p99", "us", ours["p99_us"], theirs["p99_us"], 8, least)]
    costs = [side["client_cpu_us"] + side["server_cpu_us"] for side in sides]
    parts = " / ".join(f"client {side['client_cpu_us']:.0f} + server {side['server_cpu_us']:.0f}" for side in sides)
    return [rate, Row(f"{scenario}: CPU a step", "us", *costs, 5, parts)]
