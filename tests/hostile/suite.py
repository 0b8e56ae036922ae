"""Hostile programs, and what must be true during each of them and after it.

`programs/` has a file for each program. Its first line names the outcome that is safe.
"""

import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from openenv.core.sandbox.box_spec import BoxSpec
from openenv.core.sandbox.limits import SandboxLimits
from openenv.core.sandbox.program import ProgramResult, run_program
from openenv.core.sandbox.python_files import with_python
from openenv.core.sandbox.sandbox import SandboxHost
from tests.hostile.bystanders import LEAKS, Bystanders

PROGRAMS = Path(__file__).with_name("programs")
LIMITS = SandboxLimits(cpu_seconds=3, processes=32)
SECONDS = 4.0
MOST_WAIT_S = 1.0
"""The longest that a harmless program of another sandbox should take meanwhile."""
_START = """
import json, os, sys
given = json.load(sys.stdin)
here = os.getcwd()
for name, text in given["files"].items():
    with open(name, "w") as file:
        file.write(text.replace("/session", here))
os.execv(given["run"][0] or sys.executable, [given["run"][0] or sys.executable, *given["run"][1:]])
"""
"""Writes the program into its directory, and becomes it."""


@dataclass
class Outcome:
    """What one program did."""

    name: str
    category: str
    result: ProgramResult
    harm: list[str] = field(default_factory=list)
    """What it reached that it must not; empty if it was contained."""
    slowest_neighbour_s: float = 0.0


def programs(only: str = "") -> Iterator[Path]:
    """The files of the programs whose name matches a regular expression."""
    return (path for path in sorted(PROGRAMS.glob("*/*.*")) if re.match(only, path.stem))


def run(host: SandboxHost, path: Path, bystanders: Bystanders) -> Outcome:
    """Run one program beside harmless ones, and look at what it reached."""
    text = path.read_text()
    files = {path.name: text, "info.json": json.dumps(bystanders.info)}
    command = ["/bin/sh", path.name] if path.suffix == ".sh" else ["", "-I", "-S", "-B", path.name]
    spec = with_python(BoxSpec(command=("python", "-I", "-S", "-c", _START), limits=LIMITS, python=host.python))
    neighbour = _Neighbour(host)
    given = json.dumps({"files": files, "run": command}).encode()
    result = run_program(host, spec, stdin=given, seconds=SECONDS)
    outcome = Outcome(path.stem, path.parent.name, result)
    outcome.slowest_neighbour_s = neighbour.stop()
    output = result.stdout + result.stderr
    outcome.harm += [f"it printed {leak.decode()}" for leak in LEAKS if leak in output]
    outcome.harm += bystanders.harm()
    outcome.harm += _unsafe_words(host, path.stem, output.decode(errors="replace"))
    return outcome


class _Neighbour:
    """Runs harmless programs in sandboxes of their own, one after another, and keeps the longest time."""

    def __init__(self, host: SandboxHost) -> None:
        self._host = host
        self._is_done = threading.Event()
        self._slowest = 0.0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> float:
        """The longest time that one took, in seconds."""
        self._is_done.set()
        self._thread.join()
        return self._slowest

    def _run(self) -> None:
        spec = with_python(BoxSpec(command=("python", "-I", "-S", "-c", "print(1)"), python=self._host.python))
        while True:
            started = time.monotonic()
            result = run_program(self._host, spec)
            assert result.stdout == b"1\n", result
            self._slowest = max(self._slowest, time.monotonic() - started)
            if self._is_done.wait(0.2):
                return


_UNSAFE = re.compile(r"\b(WROTE|OPENED|MADE|CHROOTED|CONNECTED|KILLED|DONE|RAISED|SET|OPEN)\b|^0 Success", re.MULTILINE)
"""What the programs print only where they were not contained: words, and the result of a denied system call."""
_NEEDS_SESSION_SIZE = {"rs08"}
"""Programs that only a limit on the size of the session contains."""


def _unsafe_words(host: SandboxHost, name: str, output: str) -> list[str]:
    found = _UNSAFE.search(output)
    is_known = name in _NEEDS_SESSION_SIZE and host.layers["session size"] != "on"
    return [] if found is None or is_known else [f"it printed {found.group()!r}"]
