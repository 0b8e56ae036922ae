"""Steps per second, ours beside the published package, interleaved in one run: `make bench`.

Clients run in the standard library's event loop, and in uvloop where their installation has it: ours does, the
published package's only when somebody adds it. Writes `benchmarks/results/steps.json`. Absolute figures move from
machine to machine and run to run; the ratios stand.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from openenv.core.containers.local_process import wait_until_healthy

HERE = Path(__file__).parent
PEER_SERVER = HERE.parent / "tests/interop/published_peer.py"
OURS = {"echo": "openenv.envs.echo_env.server.app", "catch": "openenv.envs.openspiel_env.server.app"}

Figures = dict[str, float]


@dataclass(frozen=True)
class Scenario:
    """What is measured in one row."""

    game: str
    mode: str
    sessions: int

    def __str__(self) -> str:
        return f"{self.game}, {self.mode}, {self.sessions} session{'s' * (self.sessions > 1)}"


SCENARIOS = [
    Scenario("echo", "sync", 1),
    Scenario("echo", "async", 1),
    Scenario("echo", "uvloop", 1),
    Scenario("echo", "async", 32),
    Scenario("echo", "uvloop", 32),
    Scenario("catch", "sync", 1),
    Scenario("catch", "async", 1),
    Scenario("catch", "uvloop", 1),
    Scenario("catch", "async", 32),
    Scenario("catch", "uvloop", 32),
]


def main() -> None:
    """Measure every scenario in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--published-python", default=".venv-published/bin/python")
    parser.add_argument("--rounds", type=int, default=3, help="Turns of each side (default 3); medians are shown.")
    parser.add_argument("--seconds", type=float, default=3.0, help="Length of one turn (default 3).")
    args = parser.parse_args()
    with ExitStack() as stack, Progress(console=Console(stderr=True), transient=True) as progress:
        servers = {
            (side, game): stack.enter_context(serving(side, game, args.published_python))
            for side in ("ours", "published")
            for game in OURS
        }
        task = progress.add_task("measuring", total=len(SCENARIOS) * args.rounds * 2)
        rows = []
        for scenario in SCENARIOS:
            turns: dict[str, list[Figures]] = {"ours": [], "published": []}
            for _ in range(args.rounds):
                for side, results in turns.items():
                    python = sys.executable if side == "ours" else args.published_python
                    results.append(measure(python, *servers[side, scenario.game], scenario, args.seconds))
                    progress.advance(task)
            rows.append((str(scenario), medians(turns["ours"]), medians(turns["published"])))
    target = HERE / "results/steps.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(
        json.dumps([dict(zip(("scenario", "ours", "published"), row, strict=True)) for row in rows], indent=1)
    )
    Console(width=120).print(table(rows))


def measure(python: str, url: str, server_pid: int, scenario: Scenario, seconds: float) -> Figures:
    """One turn of one side: the client's figures and the server's processor time for each step."""
    what = [url, scenario.game, scenario.mode, str(scenario.sessions), str(seconds)]
    before = cpu_s(server_pid)
    done = subprocess.run([python, HERE / "peer_client.py", *what], capture_output=True, text=True, check=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    figures["server_cpu_us"] = 1e6 * (cpu_s(server_pid) - before) / (figures["steps_per_s"] * seconds)
    return figures


def medians(results: list[Figures]) -> Figures:
    """The median of each figure over the turns."""
    return {key: statistics.median(result[key] for result in results) for key in results[0]}


def cpu_s(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(side: str, game: str, published_python: str) -> Iterator[tuple[str, int]]:
    """A running server of one side: its URL and process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ours = [sys.executable, "-m", OURS[game], "--port", str(port)]
    theirs = [published_python, str(PEER_SERVER), "serve", str(port), game]
    process = subprocess.Popen(ours if side == "ours" else theirs, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url, process, timeout_s=60)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(10)


def table(rows: list[tuple[str, Figures, Figures]]) -> Table:
    """Medians side by side, and the ratio of steps per second."""
    shown = Table("scenario", title="Steps per second over loopback (ours / published)")
    for heading in ("ours /s", "published /s", "ratio", "p50 us", "p99 us", "CPU us a step: client", "server"):
        shown.add_column(heading, justify="right")
    for scenario, ours, theirs in rows:
        pairs = [
            f"{ours[key]:.0f} / {theirs[key]:.0f}" for key in ("p50_us", "p99_us", "client_cpu_us", "server_cpu_us")
        ]
        rates = (ours["steps_per_s"], theirs["steps_per_s"])
        shown.add_row(scenario, f"{rates[0]:,.0f}", f"{rates[1]:,.0f}", f"{rates[0] / rates[1]:.1f}x", *pairs)
    return shown


if __name__ == "__main__":
    main()
