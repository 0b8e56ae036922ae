"""Steps per second of one worker and of several, on an environment that computes: `python -m benchmarks.workers`.

Turns of both servers alternate, so that noise falls on both. Clients run in processes of their own and use a part of
the same cores; the table shows how much.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from openenv import Action, Environment, Observation, ServerConfig, State, create_app, serve
from openenv.core.env_client import EnvClient
from openenv.hosting.local_process import LocalServer

MODULE = "benchmarks.workers"
ITERATIONS = 40_000
"""Iterations of a step's loop: about a millisecond of pure Python."""


class BusyAction(Action):
    """An action without fields."""


class BusyObservation(Observation):
    """The result of the computation."""

    checksum: int


class BusyEnvironment(Environment[BusyAction, BusyObservation, State]):
    """Uses processor time in pure Python."""

    execution = "inline"

    def __init__(self) -> None:
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> BusyObservation:
        """Start an episode without a computation."""
        self._state = State(episode_id=episode_id)
        return BusyObservation(checksum=0)

    def step(self, action: BusyAction, timeout_s: float | None = None) -> BusyObservation:
        """Compute for about a millisecond."""
        self._state.step_count += 1
        checksum = 0
        for number in range(ITERATIONS):
            checksum ^= number
        return BusyObservation(checksum=checksum)

    @property
    def state(self) -> State:
        """The number of steps."""
        return self._state


class BusyEnv(EnvClient[BusyAction, BusyObservation, State]):
    """Client of one session."""


app = create_app(BusyEnvironment, config=ServerConfig(max_sessions=256))


async def play(url: str, sessions: int, seconds: float) -> None:
    """Step all sessions of this process concurrently after a line on stdin; print the steps and processor seconds."""
    async with contextlib.AsyncExitStack() as stack:
        envs = [await stack.enter_async_context(BusyEnv(base_url=url)) for _ in range(sessions)]
        for env in envs:
            await env.reset()
        print("ready", flush=True)
        sys.stdin.readline()
        cpu_s, ended = -time.process_time(), time.perf_counter() + seconds

        async def play_one(env: BusyEnv) -> int:
            steps = 0
            while time.perf_counter() < ended:
                await env.step(BusyAction())
                steps += 1
            return steps

        steps = sum(await asyncio.gather(*map(play_one, envs)))
        print(json.dumps({"steps": steps, "cpu_s": cpu_s + time.process_time()}))


def measure(url: str, sessions: int, clients: int, seconds: float) -> tuple[float, float]:
    """Return the steps per second of all clients, and the processor seconds that they used in a second."""
    shares = [sessions // clients + (index < sessions % clients) for index in range(clients)]
    commands = [[sys.executable, "-m", MODULE, "--play", url, str(share), str(seconds)] for share in shares]
    with contextlib.ExitStack() as stack:
        playing = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for command in commands
        ]
        for process in playing:
            process.stdout.readline()
        for process in playing:
            process.stdin.write("go\n")
            process.stdin.flush()
        results = [json.loads(process.communicate()[0]) for process in playing]
    return sum(result["steps"] for result in results) / seconds, sum(result["cpu_s"] for result in results) / seconds


def step_s() -> float:
    """Return the seconds of one step without a server."""
    env = BusyEnvironment()
    env.reset()
    took = []
    for _ in range(200):
        began = time.perf_counter()
        env.step(BusyAction())
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def main(argv: Sequence[str] | None = None) -> None:
    """Serve, play, or measure both servers, as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2, help="Workers beside one (default 2).")
    parser.add_argument("--sessions", type=int, default=16, help="Sessions (default 16).")
    parser.add_argument("--clients", type=int, default=2, help="Processes that play them (default 2).")
    parser.add_argument("--rounds", type=int, default=10, help="Turns of each side (default 10).")
    parser.add_argument("--seconds", type=float, default=2.0, help="Length of one turn (default 2).")
    parser.add_argument("--play", nargs=3, metavar=("URL", "SESSIONS", "SECONDS"), help=argparse.SUPPRESS)
    parser.add_argument("--serve", type=int, metavar="WORKERS", help=argparse.SUPPRESS)
    parser.add_argument("--host", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.play:
        asyncio.run(play(args.play[0], int(args.play[1]), float(args.play[2])))
    elif args.serve:
        serve(f"{MODULE}:app", args.host, args.port, workers=args.serve)
    else:
        compare(args)


def compare(args: argparse.Namespace) -> None:
    """Measure one worker and several in turns, and print the table."""
    turns: dict[int, list[tuple[float, float]]] = {1: [], args.workers: []}
    with LocalServer(MODULE, ["--serve", "1"]) as one, LocalServer(MODULE, ["--serve", str(args.workers)]) as several:
        for _ in range(args.rounds):
            for workers, server in ((1, one), (args.workers, several)):
                turns[workers].append(measure(server.base_url, args.sessions, args.clients, args.seconds))
    alone_s = step_s()
    table = Table(title=f"{args.sessions} sessions; a step computes for {1000 * alone_s:.2f} ms")
    for heading in ("workers", "steps/s, best turn", "median turn", "cores busy with steps", "cores of the clients"):
        table.add_column(heading, justify="right")
    for workers, measured in turns.items():
        rates, clients_cpu = zip(*measured, strict=True)
        figures = (f"{max(rates):,.0f}", f"{statistics.median(rates):,.0f}", f"{max(rates) * alone_s:.2f}")
        table.add_row(str(workers), *figures, f"{statistics.median(clients_cpu):.2f}")
    Console(width=120).print(table)
    one_rates, several_rates = ([rate for rate, _ in turns[workers]] for workers in turns)
    ratios = [several / one for one, several in zip(one_rates, several_rates, strict=True)]
    print(f"{args.workers} workers / 1 worker: best turns {max(several_rates) / max(one_rates):.2f}x, turn by turn "
          f"{statistics.median(ratios):.2f}x (median; {min(ratios):.2f} to {max(ratios):.2f})")  # fmt: skip


if __name__ == "__main__":
    main()
