"""What it costs before the first step: imports, servers, sessions: `python -m benchmarks startup`."""

import json
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from unittest import mock

from benchmarks.peers import HERE, Figures, Served, Sides, play, resident_mb, serving
from benchmarks.report import Row
from benchmarks.steps import floor

IMPORTS = ("import openenv", "from openenv.core import EnvClient")
_FLOOR = "import asyncio, pydantic; pydantic.create_model('Model', x=(int, 0))"
"""What any library of typed messages and coroutines imports."""
_MEASURED = """
import json, time
began = time.perf_counter()
{statement}
took = time.perf_counter() - began
status = open("/proc/self/status").read()
print(json.dumps({{"s": took, "mb": int(status.split("VmRSS:")[1].split()[0]) / 1024}}))
"""


def rows(sides: Sides) -> list[Row]:
    """Seconds and memory of imports and servers, and of sessions from their connection to their end."""
    with _bytecode_kept():
        shown = [*_imports(sides), *_servers(sides)]
    with serving(sides, "ours", "echo") as mine, serving(sides, "published", "echo") as peer:
        for mode, client in (("open", "sync"), ("open_async", "async")):
            turns = {server.side: partial(play, sides, server, mode) for server in (mine, peer)}
            measured = sides.in_turns(f"session, {client}", {**turns, "floor": partial(floor, sides, "open")})
            ours, theirs = measured["ours"], measured["published"]
            note = f"p50 {ours['p50_us']:.0f} / {theirs['p50_us']:.0f} us; floor {measured['floor']['rate']:,.0f} /s"
            shown.append(Row(f"session, {client}: connect, reset, close", "/s", ours["rate"], theirs["rate"], 5, note))
    return shown


SIDES = ("ours", "published")
_LONGEST_S = 0.5
_MOST_MB = 60


@contextmanager
def _bytecode_kept() -> Iterator[None]:
    """What is imported is compiled once and kept, as Python does unless the surroundings forbid it; nothing is left."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, PYTHONPYCACHEPREFIX=folder):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        yield


def _in_turns_once_compiled(sides: Sides, what: str, turns: dict[str, Callable[[], Figures]]) -> dict[str, Figures]:
    for measure in turns.values():
        measure()
    return sides.in_turns(what, turns)


def _imports(sides: Sides) -> Iterator[Row]:
    for statement in IMPORTS:
        turns = {side: partial(imported, sides, side, statement) for side in SIDES}
        turns["floor"] = partial(imported, sides, "ours", _FLOOR)
        measured = _in_turns_once_compiled(sides, statement, turns)
        ours, theirs, least = (measured[side] for side in (*SIDES, "floor"))
        note = f"wanted: {_LONGEST_S} s and {_MOST_MB} MiB at most; floor {least['s']:.2f} s, {least['mb']:.0f} MiB"
        yield Row(f"{statement}: time", "s", ours["s"], theirs["s"], theirs["s"] / _LONGEST_S, note)
        yield Row(f"{statement}: memory", "MiB", ours["mb"], theirs["mb"], theirs["mb"] / _MOST_MB, note)


def _servers(sides: Sides) -> Iterator[Row]:
    measured = _in_turns_once_compiled(sides, "echo server", {side: partial(started, sides, side) for side in SIDES})
    ours, theirs = (measured[side] for side in SIDES)
    yield Row("echo server: start to first answered reset", "s", ours["s"], theirs["s"], 4)
    yield Row("echo server: memory", "MiB", ours["mb"], theirs["mb"], 2)


def imported(sides: Sides, side: str, statement: str) -> Figures:
    """Seconds and memory of an import in a fresh interpreter."""
    command = [sides.python(side), "-c", _MEASURED.format(statement=statement)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE)
    figures: Figures = json.loads(done.stdout)
    return figures


def started(sides: Sides, side: str) -> Figures:
    """Seconds from a server's start to its first reset, over HTTP as both answer it; its memory then."""
    with serving(sides, side, "echo") as server:
        began = time.perf_counter()
        _reset(server)
        return {"s": server.started_s + time.perf_counter() - began, "mb": resident_mb(server.pid)}


def _reset(server: Served) -> None:
    request = urllib.request.Request(f"{server.url}/reset", b"{}", {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()
