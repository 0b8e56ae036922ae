"""Episodes a second where episodes wait for each other, and where they do not: `python -m benchmarks.rollouts`.

vLLM writes replies of 1 to 256 tokens, with a tiny model of random weights whose replies end at random. Steps of the
environment take 10 to 500 ms. Each row plays equal groups with two rollouts, as a training run does. Without --vllm
the model is in this process, where replies are written in batches.
"""

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.report import machine
from benchmarks.rollouts.busy import Busy
from openenv.core.session_pool import SessionPool
from openenv.rl.algorithm.rewards import EpisodeReward
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config, EnvConfig
from openenv.rl.config_file import config_from_mapping
from openenv.rl.environments import serve_environment
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.of_run import RunGenerators
from openenv.rl.models.chat import Chat, word_tokenizer
from openenv.rl.models.language_model import tiny_model
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.rollouts.rollout import Rollout
from openenv.rl.training.checkpoint import save_model

FASTER, BUSY = 2.0, 0.9
"""Episodes a second as a multiple of those that wait, and the share of time in which the generator works."""
_WORDS = " ".join(f"word{number}" for number in range(40))


def config_of(together: bool, args: argparse.Namespace) -> Config:
    """The settings of a row."""
    return config_from_mapping(
        {
            "env": {"name": "benchmarks.rollouts.slow_env:SlowEnvironment"},
            "group_size": 8,
            "groups_in_flight": args.episodes // 8,
            "max_res_tokens": 256,
            "sampling": {"together": together},
            "model": {"precision": "float32"},
            "generator": {"name": "vllm", "python": args.vllm, "options": ["--max-num-seqs=256"]} if args.vllm else {},
            "checkpoint": {"folder": args.folder},
        }
    )


def started(args: argparse.Namespace, stack: contextlib.ExitStack) -> tuple[BaseGenerator, Chat]:
    """The generator of all rows, which the stack ends."""
    config = config_of(True, args)
    chat = Chat(word_tokenizer([f"{_WORDS} red green blue assistant word: write a text ."]))
    model = tiny_model(config.model, chat.tokenizer, max_length=1024, seed=0)
    folder = Path(args.folder) / "model"
    save_model(folder, model, chat)
    generators = RunGenerators(config, chat, model, str(folder))
    stack.callback(generators.close)
    generators.start()
    return generators.for_rollouts(model, WeightStore()), chat


async def played(
    config: Config, generator: BaseGenerator, chat: Chat, args: argparse.Namespace
) -> tuple[list[Group], float, float]:
    """The groups, their seconds, and the seconds in which the generator had something to do."""
    busy = Busy()
    busy.watch(generator)
    async with contextlib.AsyncExitStack() as stack:
        served = await serve_environment(EnvConfig(name=config.env[0].name), stack)
        executor = stack.enter_context(ThreadPoolExecutor(1, "generator", torch.set_num_threads, (1,)))
        rollouts = []
        for _ in range(2):
            pool: SessionPool[Any, Any] = SessionPool(
                served.client, served.base_url, args.episodes // 2, may_share=config.plays_together
            )
            await stack.enter_async_context(pool)
            rollouts.append(
                Rollout(pool, served.text, generator, EpisodeReward(config.reward), config, executor, chat=chat)
            )
        half = args.groups // 2
        began = time.perf_counter()
        reset = {} if args.step_s is None else {"step_s": args.step_s}
        indices = range(half), range(half, 2 * half)
        parts = await asyncio.gather(*(one.play(part, reset) for one, part in zip(rollouts, indices, strict=True)))
        vars(generator).pop("replies")
        return [*parts[0], *parts[1]], time.perf_counter() - began, busy.seconds


def replies(groups: list[Group]) -> list[list[str]]:
    """What the model wrote in each episode."""
    return [[turn.reply for turn in trajectory.turns] for group in groups for trajectory in group.trajectories]


def main() -> None:
    """Measure both, print a table, and exit with code 1 if a floor is missed, or if an episode differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rollouts", description=__doc__)
    parser.add_argument("--episodes", type=int, default=256, help="That run at a time (default %(default)s).")
    parser.add_argument("--groups", type=int, default=96, help="Of eight episodes each (default %(default)s).")
    parser.add_argument("--step-s", type=float, help="Seconds of each step (default 0.01 to 0.5, drawn).")
    parser.add_argument("--rounds", type=int, default=3, help="Each row is played so often (default %(default)s).")
    parser.add_argument("--vllm", default="", metavar="PYTHON",
                        help="The interpreter of an environment with vLLM, as `make vllm` makes one.")  # fmt: skip
    args = parser.parse_args()
    console = Console(width=110, emoji=False)
    rates: dict[bool, list[float]] = {True: [], False: []}
    shares: dict[bool, list[float]] = {True: [], False: []}
    written: dict[bool, list[list[str]]] = {}
    invalid = Counter[str]()
    with contextlib.ExitStack() as stack:
        args.folder = stack.enter_context(tempfile.TemporaryDirectory())
        generator, chat = started(args, stack)
        for _ in range(args.rounds):
            for together in (True, False):
                groups, took_s, busy_s = asyncio.run(played(config_of(together, args), generator, chat, args))
                written[together] = replies(groups)
                invalid.update(t.reason for group in groups for t in group.trajectories if not t.valid)
                rates[together].append(len(written[together]) / took_s)
                shares[together].append(busy_s / took_s)
    lengths = [len(reply.split()) for episode in written[True] for reply in episode]
    console.print(
        f"{machine()}; replies of {min(lengths)} to {max(lengths)} words, {statistics.fmean(lengths):.0f} on average"
    )
    table = Table("episodes", "a second", "generator has work")
    for together, name in ((True, "wait for each other"), (False, "wait for nobody")):
        table.add_row(name, f"{statistics.median(rates[together]):.1f}", f"{statistics.median(shares[together]):.0%}")
    ratio, busy = statistics.median(rates[False]) / statistics.median(rates[True]), statistics.median(shares[False])
    console.print(table)
    differing = sum(one != other for one, other in zip(written[True], written[False], strict=True))
    console.print(
        f"{ratio:.2f}x (floor {FASTER:g}x), busy {busy:.0%} (floor {BUSY:.0%}), "
        f"{differing} of {len(written[True])} episodes differ (floor 0); invalid: {invalid or 'none'}"
    )
    raise SystemExit(not (ratio >= FASTER and busy >= BUSY and not differing and not invalid))


if __name__ == "__main__":
    main()
