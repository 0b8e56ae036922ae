"""The same server on a port and on a Unix socket, both ours: `python -m benchmarks sockets`."""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.peers import HERE, OURS, Served, Sides, play, serving
from benchmarks.report import Row


def rows(sides: Sides) -> list[Row]:
    """A step of the echo, and of a screen."""
    shown: list[Row] = []
    for name in ("echo", "pixels"):
        with serving(sides, "ours", name) as port, _on_a_socket(name) as unix:
            turns = {"unix": partial(play, sides, unix, "sync"), "port": partial(play, sides, port, "sync")}
            measured = sides.in_turns(turns)
        mine, ports = measured["unix"], measured["port"]
        note = f"p50 {mine['p50_us']:.0f} / {ports['p50_us']:.0f} us"
        shown.append(Row(f"{name}, sync: Unix socket / port", "/s", mine["rate"], ports["rate"], 1, note))
    return shown


@contextmanager
def _on_a_socket(name: str) -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "environment.sock"
        process = subprocess.Popen([sys.executable, "-m", *OURS[name], "--host", f"unix:{path}"], cwd=HERE.parent)
        try:
            began = time.perf_counter()
            while not _answers(path):
                time.sleep(0.05)
            yield Served("ours", name, f"unix:{path}", process.pid, time.perf_counter() - began)
        finally:
            process.terminate()
            process.wait(10)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
