"""Which of our functions one step calls, at both ends: `python -m benchmarks.traces.step [--no-tree]`.

An `EchoEnv` plays against an echo server in a process of its own. Once both are warm, each end records the Python
calls of one step (`sys.setprofile`). Calls outside `src/openenv` are left out. A poll that repeats until the other end
has answered is shown once, with how often it ran, and counts as one.
"""

import argparse
import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import openenv
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.hosting.server_process import wait_until_healthy

ROOT = str(Path(openenv.__file__).parent) + "/"
WARM_UP_STEPS = 200
STEPS_RECORDED = 20
"""At the server, which records them all; the last is shown."""


class Call(NamedTuple):
    """One Python call of ours. depth: how many calls of ours are around it."""

    depth: int
    file: str
    function: str


class Recorder:
    """Records the calls of the thread that starts it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._depth = 0

    def start(self) -> None:
        """Begin to record."""
        self.calls, self._depth = [], 0
        sys.setprofile(self._on_event)

    def stop(self) -> list[Call]:
        """End the recording and return what was called."""
        sys.setprofile(None)
        return self.calls

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(ROOT):
            return
        if event == "call":
            self.calls.append(Call(self._depth, code.co_filename.removeprefix(ROOT), code.co_qualname))
            self._depth += 1
        elif event == "return":
            self._depth = max(0, self._depth - 1)


def roots(calls: Sequence[Call]) -> list[list[Call]]:
    """The calls in groups, each of which the interpreter or a library began."""
    groups: list[list[Call]] = []
    for call in calls:
        if call.depth == 0 or not groups:
            groups.append([])
        groups[-1].append(call)
    return groups


def once_each(calls: Sequence[Call]) -> list[tuple[list[Call], int]]:
    """The groups of `roots`, equal neighbours as one, and how many there were of each."""
    return [(group, sum(1 for _ in equal)) for group, equal in groupby(roots(calls))]


def last_step(groups: list[tuple[list[Call], int]]) -> list[tuple[list[Call], int]]:
    """The groups after the last step but one, up to the last one."""
    steps = [
        number
        for number, (group, _) in enumerate(groups)
        if any(call.function == "EchoEnvironment.step" for call in group)
    ]
    return groups[steps[-2] + 1 : steps[-1] + 1]


class Trace(NamedTuple):
    """One end's part of a step."""

    groups: list[tuple[list[Call], int]]

    @property
    def files(self) -> list[str]:
        """The file of each call, in their order."""
        return [call.file for group, _ in self.groups for call in group]

    def figures(self) -> tuple[int, int, int]:
        """Calls, files, and changes of file from one call to the next."""
        return figures_of(self.files)


def figures_of(files: Sequence[str]) -> tuple[int, int, int]:
    """Calls, files and changes of file."""
    return len(files), len(set(files)), sum(one != other for one, other in pairwise(files))


def serve(port: int) -> None:
    """The echo server. SIGUSR1 starts a recording; SIGUSR2 ends it and prints it."""
    from openenv import serve
    from openenv.envs.echo_env.server.app import program

    recorder = Recorder()

    def start(*_: object) -> None:
        print("recording", flush=True)
        recorder.start()

    def stop(*_: object) -> None:
        print(json.dumps(recorder.stop()), flush=True)

    signal.signal(signal.SIGUSR1, start)
    signal.signal(signal.SIGUSR2, stop)
    serve(program.build(), port=port)


class TracedServer:
    """An echo server in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.url = url
        self._process = process

    def start_recording(self) -> None:
        """Return when it records."""
        self._process.send_signal(signal.SIGUSR1)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def stop_recording(self) -> Trace:
        """What it has called since."""
        self._process.send_signal(signal.SIGUSR2)
        assert self._process.stdout is not None
        calls = [Call(*call) for call in json.loads(self._process.stdout.readline())]
        return Trace(last_step(once_each(calls)))


@contextmanager
def running_server() -> Iterator[TracedServer]:
    """A server that runs until the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.traces.step", "--serve", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url, process, timeout_s=60)
        yield TracedServer(process, url)
    finally:
        process.terminate()
        process.wait(10)


def synchronous_step(server: TracedServer) -> dict[str, Trace]:
    """Both ends of one step of a plain client."""
    action, recorder = EchoAction(message="hello"), Recorder()
    with EchoEnv(base_url=server.url) as env:
        env.reset(seed=1)
        for _ in range(WARM_UP_STEPS):
            env.step(action)
        recorder.start()
        env.step(action)
        at_client = Trace(once_each(recorder.stop()))
        server.start_recording()
        for _ in range(STEPS_RECORDED):
            env.step(action)
        return {"client": at_client, "server": server.stop_recording()}


async def asynchronous_step(server: TracedServer) -> dict[str, Trace]:
    """Both ends of one step of a client in an event loop."""
    action, recorder = EchoAction(message="hello"), Recorder()
    async with EchoEnv(base_url=server.url) as env:
        await env.reset(seed=1)
        for _ in range(WARM_UP_STEPS):
            await env.step(action)
        recorder.start()
        await env.step(action)
        at_client = Trace(once_each(recorder.stop()))
        server.start_recording()
        for _ in range(STEPS_RECORDED):
            await env.step(action)
        return {"client": at_client, "server": server.stop_recording()}


def show(title: str, traces: dict[str, Trace], *, with_tree: bool) -> None:
    """Print the figures of both ends and, beside them, the calls."""
    console = Console(width=140)
    table = Table("end", title=title)
    for heading in ("calls", "files", "changes of file"):
        table.add_column(heading, justify="right")
    for end, trace in traces.items():
        table.add_row(end, *map(str, trace.figures()))
    table.add_row("both", *map(str, figures_of([file for trace in traces.values() for file in trace.files])))
    console.print(table)
    if with_tree:
        for end, trace in traces.items():
            console.print(f"{end}:")
            for line in tree_lines(trace):
                console.print(line, highlight=False, markup=False)


def tree_lines(trace: Trace) -> Iterator[str]:
    """The calls, each below its caller, with its file."""
    for group, times in trace.groups:
        for call in group:
            repeated = f"  x {times}" if times > 1 and call.depth == 0 else ""
            yield f"  {'  ' * call.depth + call.function:<76} {call.file}{repeated}"


def main(argv: Sequence[str] | None = None) -> Any:
    """Trace a synchronous and an asynchronous step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-tree", action="store_true", help="Print the figures without the calls.")
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.serve is not None:
        serve(args.serve)
        return
    with running_server() as server:
        show("A synchronous step", synchronous_step(server), with_tree=not args.no_tree)
        show("An asynchronous step", asyncio.run(asynchronous_step(server)), with_tree=not args.no_tree)


if __name__ == "__main__":
    main()
