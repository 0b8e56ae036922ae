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

from openenv.hosting.sandbox.program import ProgramResult
from tests.hostile.bystanders import LEAKS, Bystanders
from tests.hostile.levels import Level

PROGRAMS = Path(__file__).with_name("programs")
MOST_WAIT_S = 1.0
"""The longest that a harmless program of another sandbox should take meanwhile."""


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


def run(level: Level, path: Path, bystanders: Bystanders) -> Outcome:
    """Run one program beside harmless ones, and look at what it reached."""
    files = {path.name: path.read_text(), "info.json": json.dumps(bystanders.info)}
    command = ["/bin/sh", path.name] if path.suffix == ".sh" else ["", "-I", "-S", "-B", path.name]
    neighbour = _Neighbour(level)
    result = level.run(files, command)
    outcome = Outcome(path.stem, path.parent.name, result)
    outcome.slowest_neighbour_s = neighbour.stop()
    output = result.stdout + result.stderr
    outcome.harm += [f"it printed {leak.decode()}" for leak in LEAKS if leak in output]
    outcome.harm += bystanders.harm()
    outcome.harm += _unsafe_words(level, path.stem, output.decode(errors="replace"))
    return outcome


class _Neighbour:
    """Runs harmless programs apart from the hostile one, one after another, and keeps the longest time."""

    def __init__(self, level: Level) -> None:
        self._level = level
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
        while True:
            started = time.monotonic()
            self._level.run_harmless()
            self._slowest = max(self._slowest, time.monotonic() - started)
            if self._is_done.wait(0.2):
                return


_UNSAFE = re.compile(r"\b(WROTE|OPENED|MADE|CHROOTED|CONNECTED|KILLED|DONE|RAISED|SET|OPEN)\b|^0 Success", re.MULTILINE)
"""What the programs print only where they were not contained: words, and the result of a denied system call."""
_NEEDS_SESSION_SIZE = {"rs08"}
"""Programs that only a limit on the size of the session contains."""

_OF_A_CONTAINER = {
    "kr20": r"RAISED",  # it sets limits that a process has not: its control group limits memory and processors
    "sc05": r"WROTE 1 \w+",  # process 1 is the container's own
}
"""What programs may print in a container, where it harms nothing outside."""


def _unsafe_words(level: Level, name: str, output: str) -> list[str]:
    if level.name == "docker" and name in _OF_A_CONTAINER:
        output = re.sub(_OF_A_CONTAINER[name], "", output)
    found = _UNSAFE.search(output)
    is_known = name in _NEEDS_SESSION_SIZE and level.layers["session size"] != "on"
    return [] if found is None or is_known else [f"it printed {found.group()!r}"]
