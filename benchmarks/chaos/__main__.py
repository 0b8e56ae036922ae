"""`python -m benchmarks.chaos`: ends and hangs the processes of a run on Ray, and compares its weights at the end.

Two runs of blackjack with the tiny model, as `openenv train` starts them: one is left alone, in the other a process
ends or hangs every few steps. Exits with 1 if a weight differs, or if anything is left behind.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.chaos.faults import Outcome, cause, plan, worst
from benchmarks.chaos.run import Driver

_STEP_LIMIT_S = 300.0
_RUN_LIMIT_S = 3600.0


def settings(steps: int) -> dict[str, Any]:
    """The configuration of both runs."""
    return {
        "name": "chaos",
        "seed": 1,
        "env": {"name": "openspiel", "reset": {"game_name": "blackjack"}},
        "pretrain": {"steps": 100, "max_decisions": 20_000},
        "replay_buffer": {"batch_size": 96},
        "trainer": {"training": {"steps": steps}},
        "evaluation": {"num_games": 64},
        "checkpoint": {"interval": 10},
        "engine": {"name": "ray", "parts": 6, "rollout_workers": 2, "generators": 2, "trainer_ranks": 2},
    }


def undisturbed(folder: Path, steps: int) -> tuple[Driver, float]:
    """A run that is left alone, and how long it took in seconds."""
    began = time.monotonic()
    driver = Driver(folder, settings(steps))
    driver.wait(_RUN_LIMIT_S)
    return driver, time.monotonic() - began


def disturbed(folder: Path, steps: int, every: int, each: int, seed: int) -> tuple[Driver, list[Outcome]]:
    """A run in which a fault happens every so many steps."""
    draw, outcomes = random.Random(seed), list[Outcome]()
    driver = Driver(folder, settings(steps))
    try:
        for number, fault in enumerate(plan(seed, each), start=1):
            if every * number >= steps:
                break
            driver.wait_for_step(every * number, _STEP_LIMIT_S)
            outcomes.append(cause(fault, driver, draw, _STEP_LIMIT_S))
            last = outcomes[-1]
            print(f"step {last.step}: {fault}, noticed after {last.noticed_s:.1f} s, "
                f"next step after {last.went_on_s:.1f} s",
                  flush=True)  # fmt: skip
        driver.wait(_RUN_LIMIT_S)
    except BaseException:
        driver.end()
        raise
    return driver, outcomes


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--steps", type=int, default=100, help="steps of each run (default 100)")
    parser.add_argument("--every", type=int, default=5, help="steps between faults (default 5)")
    parser.add_argument("--each", type=int, default=3, help="how often each kind of process is killed (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="of the order of faults (default 0)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as parent:
        folders = [Path(parent) / name for name in ("alone", "disturbed")]
        for folder in folders:
            folder.mkdir()
        alone, took_s = undisturbed(folders[0], options.steps)
        print(f"left alone: {options.steps} steps, {took_s:.0f} s", flush=True)
        began = time.monotonic()
        driver, outcomes = disturbed(folders[1], options.steps, options.every, options.each, options.seed)
        print(f"disturbed: {options.steps} steps, {time.monotonic() - began:.0f} s", flush=True)
        table = Table("fault", "how often", "noticed after at most", "next step after at most", title="Faults")
        for fault, number, noticed_s, went_on_s in worst(outcomes):
            table.add_row(str(fault), str(number), f"{noticed_s:.1f} s", f"{went_on_s:.1f} s")
        Console(emoji=False).print(table)
        expected, found = alone.weights(), driver.weights()
        different = [name for name in expected if not torch.equal(expected[name], found[name])]
        left = driver.left_behind() + alone.left_behind()
        driver.end()
        alone.end()
        print(f"weights that differ: {len(different)} of {len(expected)}")
        print("left behind:", *(left or ["nothing"]), sep="\n  ")
    return 1 if different or left else 0


if __name__ == "__main__":
    sys.exit(main())
