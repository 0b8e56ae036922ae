"""What a sandbox costs: `python -m benchmarks.isolation`.

Each figure has the same work without a sandbox beside it: a program that a plain Python process runs from a pipe, and
the start of a plain Python process. Turns alternate. With --image, a container of the coding environment's image is
started, until its first reset is done, and stopped.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.peers import Figures, Sides
from benchmarks.report import machine
from openenv.envs.coding_env import CodeAction, CodingEnv
from openenv.hosting.local_process import LocalServer
from openenv.hosting.sandbox.box_spec import PYTHON, BoxSpec
from openenv.hosting.sandbox.program import run_program
from openenv.hosting.sandbox.python_files import with_python
from openenv.hosting.sandbox.sandbox import SandboxHost

CODE = "x = sum(range(100))\nx"
_PIPE = "import sys\nfor line in sys.stdin:\n    exec(eval(line), globals())\n    print('done', flush=True)\n"
_START = ("-I", "-S", "-c", "pass")
_NUM_IDLE = 8
STEP, RESET, START, IMAGE = "a step", "a reset", "a sandbox started and ended", "a container, to its first observation"
PEERS = {STEP: "a plain process, from a pipe", RESET: "a plain process started", START: "a plain process started"}
WANTED_MS = {STEP: 3.0, RESET: 30.0, IMAGE: 1500.0}


def timed_ms(act: Callable[[], object], number: int) -> list[float]:
    """How long each of some calls takes."""
    times = []
    for _ in range(number):
        began = time.perf_counter()
        act()
        times.append(1e3 * (time.perf_counter() - began))
    return times


def figures_of(act: Callable[[], object], number: int) -> Figures:
    """The median and the 90th percentile of some calls, in milliseconds."""
    times = timed_ms(act, number)
    return {"median": statistics.median(times), "p90": statistics.quantiles(times, n=10)[-1]}


@contextmanager
def plain_interpreter() -> Iterator[Callable[[], None]]:
    """Runs the program in a Python process without a sandbox."""
    with subprocess.Popen([PYTHON, "-I", "-S", "-c", _PIPE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run() -> None:
            stdin.write(repr(CODE).encode() + b"\n")
            stdin.flush()
            assert stdout.readline() == b"done\n"

        yield run
        stdin.close()


def idle_memory_mib(server: LocalServer, base_url: str) -> float:
    """Memory of the processes of a session that does nothing; what they share with others counts in part."""
    before = _memory_below(server.pid)
    with ExitStack() as sessions:
        for _ in range(_NUM_IDLE):
            env = sessions.enter_context(CodingEnv(base_url=base_url))
            env.reset()
            env.step(CodeAction(code=CODE))
        return (_memory_below(server.pid) - before) / _NUM_IDLE


def _memory_below(pid: int) -> float:
    """The proportional memory of all processes that a process has started, in MiB."""
    total, pending = 0.0, [pid]
    while pending:
        parent = pending.pop()
        for tasks in Path(f"/proc/{parent}/task").glob("*/children"):
            for child in map(int, tasks.read_text().split()):
                pending.append(child)
                lines = Path(f"/proc/{child}/smaps_rollup").read_text()
                total += int(lines.split("\nPss:")[1].split()[0]) / 1024
    return total


def started_container_ms(image: str, number: int) -> Figures:
    """How long a client takes from the start of its container to the first observation."""
    times = []
    for _ in range(number):
        began = time.perf_counter()
        with CodingEnv.from_docker_image(image) as env:
            env.reset()
            times.append(1e3 * (time.perf_counter() - began))
    return {"median": statistics.median(times), "p90": max(times)}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="Turns of each side; medians are shown (default 5).")
    parser.add_argument("--number", type=int, default=40, help="Calls of one turn (default 40).")
    parser.add_argument("--image", help="Image of the coding environment, as `openenv build coding` names it.")
    args = parser.parse_args()
    sides = Sides("", args.rounds, 0.0)
    with (
        LocalServer("openenv.envs.coding_env.server.app") as server,
        CodingEnv(base_url=server.base_url) as env,
        SandboxHost() as host,
        plain_interpreter() as run_plain,
    ):
        env.reset()
        spec = with_python(BoxSpec(command=("python", *_START)))
        acts: dict[str, Callable[[], object]] = {
            STEP: lambda: env.step(CodeAction(code=CODE)),
            PEERS[STEP]: run_plain,
            RESET: env.reset,
            START: lambda: run_program(host, spec),
            PEERS[START]: lambda: subprocess.run([PYTHON, *_START], check=True),
        }
        turns = {name: (lambda act=act: figures_of(act, args.number)) for name, act in acts.items()}
        measured = sides.in_turns("sandboxes", turns)
        memory = idle_memory_mib(server, server.base_url)
        level = host.level
    title = f"Sandboxes on level {level}, {machine()['processor']}, {machine()['cores']} cores, {sys.platform}"
    shown = Table("what", title=title)
    for heading in ("median ms", "p90 ms", "wanted ms", "without a sandbox, ms", "ratio"):
        shown.add_column(heading, justify="right")
    for name in (STEP, RESET, START):
        one, peer = measured[name], measured[PEERS[name]]
        wanted = f"{WANTED_MS[name]:g}" if name in WANTED_MS else ""
        bare = f"{peer['median']:.2f} ({PEERS[name]})"
        shown.add_row(name, f"{one['median']:.2f}", f"{one['p90']:.2f}", wanted, bare,
                      f"{one['median'] / peer['median']:.1f}")  # fmt: skip
    if args.image:
        one = started_container_ms(args.image, args.rounds)
        shown.add_row(IMAGE, f"{one['median']:.0f}", f"{one['p90']:.0f}", f"{WANTED_MS[IMAGE]:g}")
    console = Console(width=130)
    console.print(shown)
    console.print(f"memory of a session that does nothing: {memory:.1f} MiB")


if __name__ == "__main__":
    main()
