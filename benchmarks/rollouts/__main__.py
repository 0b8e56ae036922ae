"""Episodes a second where episodes wait for each other, and where they do not: `python -m benchmarks.rollouts`.

The environment's steps take 10 to 500 ms. The model writes 1 to 256 tokens, 50 on average: it is a tiny one with random
weights, whose replies end at random. Each row plays equal groups with two rollouts, as a training run does.
"""

import argparse
import asyncio
import contextlib
import statistics
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.report import machine
from openenv.core.session_pool import SessionPool
from openenv.rl.algorithm.rewards import EpisodeReward
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config, EnvConfig
from openenv.rl.config_file import config_from_mapping
from openenv.rl.environments import serve_environment
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat, word_tokenizer
from openenv.rl.models.language_model import tiny_model
from openenv.rl.rollouts.rollout import Rollout

FASTER, BUSY = 2.0, 0.9
"""Episodes a second as a multiple of those that wait, and the share of time in which the generator works."""
_WORDS = " ".join(f"word{number}" for number in range(40))


class Timed(ThreadPoolExecutor):
    """One thread that counts the seconds in which it works."""

    def __init__(self, threads: int) -> None:
        super().__init__(1, "generator", torch.set_num_threads, (threads,))
        self.busy_s = 0.0

    def submit(self, work: Any, /, *args: Any, **keywords: Any) -> Future[Any]:
        """As the class it extends."""

        def timed() -> Any:
            began = time.perf_counter()
            try:
                return work(*args, **keywords)
            finally:
                self.busy_s += time.perf_counter() - began

        return super().submit(timed)


def config_of(together: bool, args: argparse.Namespace) -> Config:
    """The settings of a row."""
    return config_from_mapping(
        {
            "env": {"name": "benchmarks.rollouts.slow_env:SlowEnvironment"},
            "group_size": 8,
            "groups_in_flight": args.episodes // 8,
            "max_res_tokens": 256,
            "sampling": {"together": together},
            "threads": args.threads,
        }
    )


async def played(config: Config, args: argparse.Namespace) -> tuple[list[Group], float, float]:
    """The groups, their seconds, and the seconds in which the generator has worked."""
    async with contextlib.AsyncExitStack() as stack:
        served = await serve_environment(EnvConfig(name=config.env[0].name), stack)
        chat = Chat(word_tokenizer([f"{_WORDS} red green blue assistant word: write a text ."]))
        model = tiny_model(config.model, chat.tokenizer, max_length=1024, seed=0)
        generator = Generator(model, chat, max_new_tokens=config.max_res_tokens, precision="float32")
        executor = stack.enter_context(Timed(args.threads))
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
        began, busy_s = time.perf_counter(), executor.busy_s
        parts = await asyncio.gather(rollouts[0].play(range(half)), rollouts[1].play(range(half, 2 * half)))
        return [*parts[0], *parts[1]], time.perf_counter() - began, executor.busy_s - busy_s


def replies(groups: list[Group]) -> list[list[str]]:
    """What the model wrote in each episode."""
    return [[turn.reply for turn in trajectory.turns] for group in groups for trajectory in group.trajectories]


def main() -> None:
    """Measure both, print a table, and exit with code 1 if a floor is missed, or if an episode differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rollouts", description=__doc__)
    parser.add_argument("--episodes", type=int, default=256, help="That run at a time (default %(default)s).")
    parser.add_argument("--groups", type=int, default=96, help="Of eight episodes each (default %(default)s).")
    parser.add_argument("--rounds", type=int, default=3, help="Each row is played so often (default %(default)s).")
    parser.add_argument("--threads", type=int, default=1, help="Of the generator (default %(default)s).")
    args = parser.parse_args()
    console = Console(width=110, emoji=False)
    rates: dict[bool, list[float]] = {True: [], False: []}
    shares: dict[bool, list[float]] = {True: [], False: []}
    written: dict[bool, list[list[str]]] = {}
    for _ in range(args.rounds):
        for together in (True, False):
            groups, took_s, busy_s = asyncio.run(played(config_of(together, args), args))
            written[together] = replies(groups)
            rates[together].append(len(written[together]) / took_s)
            shares[together].append(busy_s / took_s)
    lengths = [len(reply.split()) for episode in written[True] for reply in episode]
    console.print(
        f"{machine()}; replies of {min(lengths)} to {max(lengths)} words, {statistics.fmean(lengths):.0f} on average"
    )
    table = Table("episodes", "a second", "generator works")
    for together, name in ((True, "wait for each other"), (False, "wait for nobody")):
        table.add_row(name, f"{statistics.median(rates[together]):.1f}", f"{statistics.median(shares[together]):.0%}")
    ratio, busy = statistics.median(rates[False]) / statistics.median(rates[True]), statistics.median(shares[False])
    console.print(table)
    is_equal = written[True] == written[False]
    console.print(f"{ratio:.2f}x (floor {FASTER:g}x), busy {busy:.0%} (floor {BUSY:.0%}), equal episodes: {is_equal}")
    raise SystemExit(not (ratio >= FASTER and busy >= BUSY and is_equal))


if __name__ == "__main__":
    main()
