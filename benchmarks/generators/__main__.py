"""vLLM beside the embedded generator, in the same training run: `python -m benchmarks.generators --vllm PYTHON`.

SmolLM2 plays tic_tac_toe with one configuration; only `generator` differs. First both sample some games in float32, and
the trainer computes the log-probabilities of their tokens. Then each makes a run in the precision of the default, on
weights of age 0, so that what is left between generator and trainer is rounding.
"""

import argparse
import asyncio
import contextlib
import logging
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.report import machine
from benchmarks.rollouts.busy import Busy
from openenv.rl.algorithm.batch import make_batch
from openenv.rl.config import Config
from openenv.rl.config_file import config_from_mapping
from openenv.rl.generators.vllm_server import VllmGenerator
from openenv.rl.reports.results import read_rows
from openenv.rl.setup import TrainingRun, setup_training
from openenv.rl.training.trainer import ReferenceModel

DISTANCE, MISMATCH, UPDATE_S = 1e-4, 5e-3, 2.0
"""Floors: log-probabilities in float32, `mismatch_kl` of each step, and the seconds of an update with vLLM."""
_PART = 5  # steps of which a mean is shown


@dataclass
class Played:
    """What is known of a generator."""

    distance: float
    """The largest difference of a log-probability from the trainer's, in float32."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    tokens_s: float = 0.0
    """Tokens that it has sampled in a second of its work."""
    updates_s: list[float] = field(default_factory=list)
    """What each of its updates took. Empty for the embedded one, whose weights are copied in the memory."""

    @property
    def mismatch(self) -> float:
        """The largest `mismatch_kl` of a step."""
        return max(abs(row["mismatch_kl"]) for row in self.rows)

    @property
    def win_rates(self) -> list[float]:
        """Of its sampled games, in parts of the run."""
        parts = [self.rows[first : first + _PART] for first in range(0, len(self.rows), _PART)]
        return [statistics.fmean(row["win_rate"] for row in part) for part in parts]


def config_of(args: argparse.Namespace, generator: Mapping[str, Any], **changes: Any) -> Config:
    """The same settings for each generator."""
    return config_from_mapping(
        {
            "name": generator["name"],
            "env": {"name": "openspiel", "reset": {"game_name": "tic_tac_toe"}},
            "model": {"path": args.model},
            "off_by_n": 0,
            "seed": args.seed,
            "generator": dict(generator),
            "trainer": {"training": {"steps": args.steps}},
            "replay_buffer": {"batch_decisions": args.decisions},
            "evaluation": {"interval": 0},
            "checkpoint": {"folder": args.folder, "interval": 0},
            **changes,
        }
    )


async def distance_of(run: TrainingRun) -> float:
    """The largest difference between the log-probabilities of sampled tokens and the trainer's."""
    async with run.engine.pool() as pool:
        groups = await run.engine.rollout(pool, 0).play(range(4))
    batch = make_batch(groups, run.config.advantage, run.engine.chat.pad_id)
    scores = ReferenceModel(run.engine.trainer.model, run.config.model.precision).scores(batch)
    return float((scores.logprobs[batch.position] - batch.generator_logprobs).abs().max())


async def played(args: argparse.Namespace, generator: Mapping[str, Any]) -> Played:
    """Play the games in float32, and make the run."""
    exact = await setup_training(config_of(args, generator, model={"path": args.model, "precision": "float32"}))
    try:
        found = Played(distance=await distance_of(exact))
    finally:
        await exact.shutdown()
    run, busy = await setup_training(config_of(args, generator)), Busy()
    sampling = run.engine.generator
    if isinstance(sampling, VllmGenerator):
        _time_updates(sampling, found.updates_s)
    busy.watch(sampling)
    try:
        await run.run()
    finally:
        await run.shutdown()
    found.tokens_s = busy.tokens / busy.seconds
    found.rows = read_rows(run.config.run_dir / "metrics.jsonl")
    return found


def _time_updates(generator: VllmGenerator, times_s: list[float]) -> None:
    deliver = generator.deliver

    async def timed(version: int, weights: Mapping[str, Tensor]) -> None:
        began = time.perf_counter()
        await deliver(version, weights)
        times_s.append(time.perf_counter() - began)

    vars(generator)["deliver"] = timed


def main() -> None:
    """Measure both, print a table, and exit with code 1 if a floor is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generators", description=__doc__)
    parser.add_argument("--vllm", required=True, metavar="PYTHON",
                        help="The interpreter of an environment with vLLM, as `make vllm` makes one.")  # fmt: skip
    parser.add_argument("--steps", type=int, default=20, help="Of each run (default %(default)s).")
    parser.add_argument("--decisions", type=int, default=200, help="Of a step (default %(default)s).")
    parser.add_argument("--seed", type=int, default=0, help="Of both runs (default %(default)s).")
    parser.add_argument("--model", default="models/smollm2-135m", help="Its folder (default %(default)s).")
    args = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    of_generators: dict[str, Played] = {}
    with contextlib.ExitStack() as stack:
        args.folder = stack.enter_context(tempfile.TemporaryDirectory())
        for generator in ({"name": "embedded"}, {"name": "vllm", "python": args.vllm}):
            of_generators[generator["name"]] = asyncio.run(played(args, generator))
    console = Console(width=130, emoji=False)
    console.print(f"{machine()}; {args.steps} steps of tic_tac_toe, seed {args.seed}")
    table = Table("generator", "tokens/s", "update (s)", "distance in float32", "mismatch_kl, largest", "win rate")
    for name, found in of_generators.items():
        update = (
            f"{statistics.median(found.updates_s):.2f}, at most {max(found.updates_s):.2f}" if found.updates_s else ""
        )
        rates = ", ".join(f"{rate:.1%}" for rate in found.win_rates)
        table.add_row(name, f"{found.tokens_s:.0f}", update, f"{found.distance:.1g}", f"{found.mismatch:.2g}", rates)
    console.print(table)
    vllm = of_generators["vllm"]
    is_met = vllm.distance <= DISTANCE and vllm.mismatch <= MISMATCH and statistics.median(vllm.updates_s) <= UPDATE_S
    floors = f"distance {DISTANCE:g}, mismatch_kl {MISMATCH:g}, update {UPDATE_S:g} s"
    console.print(f"floors: {floors}: {'met' if is_met else 'missed'}")
    raise SystemExit(not is_met)


if __name__ == "__main__":
    main()
