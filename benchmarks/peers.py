"""Both sides of a comparison: servers of ours and of the published package, and clients of each in its own Python."""

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from openenv.core.containers.local_process import wait_until_healthy

HERE = Path(__file__).parent
PEER_SERVER = HERE.parent / "tests/interop/published_peer.py"
OURS = {
    "echo": ["openenv.envs.echo_env.server.app"],
    "catch": ["openenv.envs.openspiel_env.server.app", "--game", "catch"],
    "tic_tac_toe": ["openenv.envs.openspiel_env.server.app", "--game", "tic_tac_toe"],
    "pixels": ["benchmarks.pixels"],
}

Figures = dict[str, float]


@dataclass(frozen=True)
class Sides:
    """The two interpreters, and how often and how long each turn of them is measured."""

    published_python: str
    rounds: int
    seconds: float

    def python(self, side: str) -> str:
        """The interpreter of `ours` or `published`, from whichever folder it is run."""
        if side == "ours":
            return sys.executable
        return os.path.abspath(shutil.which(self.published_python) or self.published_python)

    def in_turns(self, what: str, measures: dict[str, Callable[[], Figures]]) -> dict[str, Figures]:
        """The median of each figure, for each measurement; their turns alternate, so that noise falls on all.

        what: for the line that says it is done, and how much of the processors the machine's host gave to others.
        """
        results: dict[str, list[Figures]] = {name: [] for name in measures}
        began, stolen = time.perf_counter(), -stolen_s()
        for _ in range(self.rounds):
            for name, measure in measures.items():
                results[name].append(measure())
        took, stolen = time.perf_counter() - began, stolen + stolen_s()
        share = stolen / (took * (os.cpu_count() or 1))
        Console(stderr=True).print(
            f"  {what}: {self.rounds} turns, {took:.0f} s, {share:.1%} of the processors stolen", soft_wrap=True
        )
        return {name: medians(figures) for name, figures in results.items()}


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    side: str
    name: str
    url: str
    pid: int
    started_s: float
    """From its start to the first answer to `/health`."""


def medians(results: list[Figures]) -> Figures:
    """The median of each figure over the turns."""
    return {key: statistics.median(result[key] for result in results) for key in results[0]}


def cpu_s(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stolen_s() -> float:
    """Seconds since the machine's start in which its host ran something else on its processors."""
    return int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Memory of a process, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@contextmanager
def serving(sides: Sides, side: str, name: str, *options: str, host: str = "127.0.0.1") -> Iterator[Served]:
    """A running server of one side. options: further ones of ours. host: where ours listens."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = str(probe.getsockname()[1])
    ours = [sys.executable, "-m", *OURS[name], "--host", host, "--port", port, *options]
    theirs = [sides.python("published"), str(PEER_SERVER), "serve", port, name]
    began = time.perf_counter()
    process = subprocess.Popen(ours if side == "ours" else theirs, stderr=subprocess.DEVNULL, cwd=HERE.parent)
    try:
        url = f"http://{host}:{port}"
        wait_until_healthy(url, process, timeout_s=60)
        yield Served(side, name, url, process.pid, time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait(10)


def play(sides: Sides, server: Served, mode: str, sessions: int = 1) -> Figures:
    """One turn: the client's figures in a process of its own, and the server's processor time for each step."""
    what = [server.side, server.url, server.name, mode, str(sessions), str(sides.seconds)]
    before = cpu_s(server.pid)
    command = [sides.python(server.side), str(HERE / "peer_client.py"), *what]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)} if server.side == "ours" else None
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    figures["server_cpu_us"] = 1e6 * (cpu_s(server.pid) - before) / (figures["rate"] * sides.seconds)
    return figures
