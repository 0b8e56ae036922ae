"""Both sides of a comparison: servers of ours and of the published package, and clients of each in its own Python."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from openenv.hosting.server_process import free_port, wait_until_healthy

ROOT = Path(__file__).parents[1]
PUBLISHED_SERVER = ROOT / "tests/interop/published_peer.py"
INLINE = {
    "echo": ["openenv.envs.echo_env.server.app"],
    "catch": ["openenv.envs.openspiel_env.server.app", "--game", "catch"],
    "tic_tac_toe": ["openenv.envs.openspiel_env.server.app", "--game", "tic_tac_toe"],
    "pixels": ["benchmarks.environments", "pixels"],
    "gymnasium": ["openenv.envs.gymnasium_env.server.app"],
}
"""Servers of ours whose environments declare inline execution."""
DEFAULT = "default execution"
"""An environment that declares no execution: a thread."""

Figures = dict[str, float]


@dataclass(frozen=True)
class Sides:
    """The two interpreters, and the number and length of each side's turns."""

    published_python: str
    rounds: int
    seconds: float

    def python(self, side: str) -> str:
        """Return the interpreter of `ours` or `published` as an absolute path."""
        if side == "ours":
            return sys.executable
        return os.path.abspath(shutil.which(self.published_python) or self.published_python)

    def in_turns(self, what: str, measures: dict[str, Callable[[], Figures]]) -> dict[str, Figures]:
        """Return the median of each figure, for each measurement. Turns alternate, so that noise falls on all.

        what: printed when it is done, with the share of the processors that the machine's host gave to others.
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
    """A running server."""

    side: str
    name: str
    url: str
    pid: int
    started_s: float
    """From its start to the first response of `/health`."""


def medians(results: list[Figures]) -> Figures:
    """Return the median of each figure over the turns."""
    return {key: statistics.median(result[key] for result in results) for key in results[0]}


def cpu_s(pid: int) -> float:
    """Return the processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stolen_s() -> float:
    """Return the seconds since boot in which the machine's host ran something else on its processors."""
    return int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Return the memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@contextmanager
def serving(
    sides: Sides, side: str, name: str, *options: str, execution: str = "inline", polls: bool = True
) -> Iterator[Served]:
    """Run a server of one side on a TCP port.

    options: further ones of ours. execution: of ours; DEFAULT serves the environment of the published side. polls:
    whether ours polls its sockets.
    """
    port = str(free_port())
    module = ["benchmarks.environments", name] if execution == DEFAULT else INLINE[name]
    ours = [sys.executable, "-m", *module, "--port", port, *options]
    theirs = [sides.python("published"), str(PUBLISHED_SERVER), "serve", port, name]
    began = time.perf_counter()
    command = ours if side == "ours" else theirs
    environment = {**os.environ, "OPENENV_BUSY_POLL": str(int(polls))}
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url, process, timeout_s=60)
        yield Served(side, name, url, process.pid, time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def busy_process() -> Iterator[None]:
    """Run a process that keeps one core busy until the block ends, or this process does."""
    spin = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n for _ in range(1_000_000): pass"
    process = subprocess.Popen([sys.executable, "-c", spin])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def play(
    sides: Sides, server: Served, mode: str, sessions: int = 1, client: str = "typed", *, polls: bool = True
) -> Figures:
    """Return one turn's figures: of a client in a process of its own, and the server's processor time a step."""
    arguments = [server.side, server.url, server.name, client, mode, str(sessions), str(sides.seconds)]
    before = cpu_s(server.pid)
    command = [sides.python(server.side), str(ROOT / "benchmarks/players/peer_client.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENENV_BUSY_POLL": str(int(polls))}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    figures["server_cpu_us"] = 1e6 * (cpu_s(server.pid) - before) / (figures["rate"] * sides.seconds)
    return figures
