"""Imports, servers and sessions before their first step: `python -m benchmarks startup`."""

import json
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from unittest import mock

from benchmarks.peers import DEFAULT, ROOT, Figures, Served, Sides, play, resident_mb, serving
from benchmarks.report import MATCH, Row
from benchmarks.steps import NO_OWN_FLOOR, bare, latencies

IMPORTS = ("import openenv", "from openenv.core import EnvClient")
_LEAST = "import asyncio, pydantic; pydantic.create_model('Model', x=(int, 0))"
"""The imports of any library of typed messages and coroutines."""
_MEASURED = """
import json, time
began = time.perf_counter()
{statement}
took = time.perf_counter() - began
status = open("/proc/self/status").read()
print(json.dumps({{"s": took, "mb": int(status.split("VmRSS:")[1].split()[0]) / 1024}}))
"""
SIDES = ("ours", "published")
LONGEST_S = 0.5
MOST_MB = 60
START_FLOOR = 4
MEMORY_FLOOR = 2
SESSION_FLOOR = 3
_Turns = Mapping[str, Callable[[], Figures]]


def rows(sides: Sides) -> list[Row]:
    """Measure seconds and memory of imports and servers, and sessions from connection to close."""
    with _bytecode_kept():
        shown = [*_imports(sides), *_servers(sides)]
    return [*shown, *_sessions(sides)]


@contextmanager
def _bytecode_kept() -> Iterator[None]:
    """Keep bytecode in a folder of its own, also where the environment turns it off."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, PYTHONPYCACHEPREFIX=folder):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        yield


def _in_turns_once_compiled(sides: Sides, what: str, turns: _Turns) -> dict[str, Figures]:
    """Measure in turns after one round that compiles what is imported."""
    for measure in turns.values():
        measure()
    return sides.in_turns(what, dict(turns))


def _imports(sides: Sides) -> Iterator[Row]:
    for statement in IMPORTS:
        turns = {side: partial(imported, sides, side, statement) for side in SIDES}
        turns["least"] = partial(imported, sides, "ours", _LEAST)
        measured = _in_turns_once_compiled(sides, statement, turns)
        ours, published, least = (measured[side] for side in (*SIDES, "least"))
        note = f"asyncio and one pydantic model: {least['s']:.2f} s, {least['mb']:.0f} MiB"
        yield Row(f"`{statement}`: time", "s", ours["s"], published["s"], note=note, at_most=LONGEST_S)
        yield Row(f"`{statement}`: memory", "MiB", ours["mb"], published["mb"], note=note, at_most=MOST_MB)


def _servers(sides: Sides) -> Iterator[Row]:
    measured = _in_turns_once_compiled(sides, "echo server", {side: partial(started, sides, side) for side in SIDES})
    ours, published = (measured[side] for side in SIDES)
    yield Row("echo server: start to first reset", "s", ours["s"], published["s"], START_FLOOR)
    yield Row("echo server: memory", "MiB", ours["mb"], published["mb"], MEMORY_FLOOR)


def _sessions(sides: Sides) -> Iterator[Row]:
    with (
        serving(sides, "ours", "echo") as inline,
        serving(sides, "ours", "echo", execution=DEFAULT) as default,
        serving(sides, "published", "echo") as published,
    ):
        servers = {"inline": inline, "published": published, DEFAULT: default}
        for mode, client in (("open", "sync"), ("open_async", "async")):
            turns = {name: partial(play, sides, server, mode) for name, server in servers.items()}
            measured = sides.in_turns(f"session, {client}", {**turns, "bare": partial(bare, sides, "open")})
            for execution, floor in (("inline", SESSION_FLOOR), (DEFAULT, MATCH)):
                figures = measured[execution], measured["published"]
                note = f"{latencies(*figures)}; bare sockets {measured['bare']['rate']:,.0f} /s"
                note += f"; {NO_OWN_FLOOR}" * (floor == MATCH)
                what = f"echo, {execution}, typed, {client}: connect, reset, close"
                yield Row(what, "/s", *(side["rate"] for side in figures), floor, note)


def imported(sides: Sides, side: str, statement: str) -> Figures:
    """Return the seconds and the memory of an import in a new interpreter."""
    command = [sides.python(side), "-c", _MEASURED.format(statement=statement)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT / "benchmarks")
    figures: Figures = json.loads(done.stdout)
    return figures


def started(sides: Sides, side: str) -> Figures:
    """Return the seconds from a server's start to its first reset over HTTP, and its memory then."""
    with serving(sides, side, "echo") as server:
        began = time.perf_counter()
        _reset(server)
        return {"s": server.started_s + time.perf_counter() - began, "mb": resident_mb(server.pid)}


def _reset(server: Served) -> None:
    request = urllib.request.Request(f"{server.url}/reset", b"{}", {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()
