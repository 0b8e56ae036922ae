"""Runs a tutorial as a reader does: cells in a notebook's kernel, shell lines in a shell, servers as real servers."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from nbclient import NotebookClient

from openenv.hosting.server_process import ServerProcess, free_port
from tests.tutorials.cells import Cell, cells_of
from tests.tutorials.named import INDENTATIONS, LeftOut, Plan

ROOT = Path(__file__).parents[2]
VARIABLE = "OPENENV_TUTORIALS"
_SERVED_PORT = re.compile(r"--port (\d+)")
_COMMAND_TIMEOUT_S = 300
_CELL_TIMEOUT_S = 600


def tutorial(number: str) -> Path:
    """The file of a tutorial. Skips the test, with the reason, where the tutorials are not."""
    folder = Path(os.environ.get(VARIABLE) or ROOT.parent / "shared/tutorials")
    found = sorted(folder.glob(f"{number}_*.txt"))
    if not found:
        pytest.skip(f"there is no tutorial {number}_*.txt in {folder}: set {VARIABLE} to their folder")
    return found[0]


@dataclass
class Reading:
    """What a reader has in hand while working through a tutorial."""

    folder: Path
    """The working directory of cells and shell lines."""
    variables: Mapping[str, str]
    """The environment variables of both."""
    stack: ExitStack
    """Stops the servers and the kernel."""
    ports: dict[str, int] = field(default_factory=dict)
    """Ports of the tutorial, and those that take their place."""
    printed: str = ""
    """What the last cell has printed."""
    expected: str = ""
    """What the tutorial shows as its output."""

    def __post_init__(self) -> None:
        self._notebook = nbformat.v4.new_notebook()
        self._kernel = NotebookClient(self._notebook, timeout=_CELL_TIMEOUT_S)
        self.stack.enter_context(self._kernel.setup_kernel(env=dict(self.variables), cwd=str(self.folder)))

    def run(self, code: str) -> str:
        """Run a cell; return what it has printed. Raises CellExecutionError for a cell that fails."""
        cell = nbformat.v4.new_code_cell(code)
        self._notebook.cells.append(cell)
        self._kernel.execute_cell(cell, len(self._notebook.cells) - 1)
        return "".join(output["text"] for output in cell.outputs if output.get("name") == "stdout")

    def value(self, expression: str) -> Any:
        """The value of an expression in the kernel, which JSON can hold."""
        return json.loads(self.run(f"import json as _json; print(_json.dumps({expression}))"))

    def port(self, of_tutorial: str) -> int:
        """The free port that takes the place of a port of the tutorial."""
        return self.ports.setdefault(of_tutorial, free_port())

    def url(self, of_tutorial: str) -> str:
        """The server that takes the place of the one at a port of the tutorial."""
        return f"http://127.0.0.1:{self.port(of_tutorial)}"

    def shell(self, lines: str) -> None:
        """Run shell lines to their end, or leave them running as a server that is healthy."""
        command = ["bash", "-euc", lines]
        served = _SERVED_PORT.search(lines)
        if served is None:
            done = subprocess.run(
                command, cwd=self.folder, env=dict(self.variables), capture_output=True, text=True,
                timeout=_COMMAND_TIMEOUT_S,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-4000:]
            self.printed = done.stdout
            return
        server = ServerProcess(command, f"http://127.0.0.1:{served[1]}", self.variables)
        self.stack.callback(server.stop)
        server.wait_until_healthy(60)


@contextmanager
def reading(folder: Path) -> Iterator[Reading]:
    """A reader in an empty folder, with `openenv compat-path` on PYTHONPATH and this Python first on PATH."""
    command = [sys.executable, "-m", "openenv", "compat-path"]
    compat_path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    paths = [compat_path, os.environ.get("PYTHONPATH", ""), str(ROOT / "src"), str(ROOT)]
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    with ExitStack() as stack:
        yield Reading(folder, variables, stack)


def read(path: Path, plan: Plan, reader: Reading) -> None:
    """Run every cell of a tutorial in order, and the check of each. Fails for an entry of the plan that has no cell."""
    cells = cells_of(path, INDENTATIONS)
    everything = "\n".join(cell.code for cell in cells)
    digests = {cell.digest for cell in cells}
    unused: list[Any] = [entry for entry in plan.left_out if entry.digest not in digests]
    unused += [digest for digest in plan.other_output if digest not in digests]
    unused += [entry for entry in (*plan.replaced, *plan.supplied) if entry.phrase not in everything]
    unused += [phrase for phrase in plan.checks if sum(phrase in cell.code for cell in cells) != 1]
    assert unused == [], "these entries match no cell, or a check matches several"
    for cell in cells:
        if (reason := _reason(plan.left_out, cell)) is not None:
            print(f"left out, {reason}: {cell.code.splitlines()[0]}")
            continue
        _run(cell, plan, reader)
        for phrase, check in plan.checks.items():
            if phrase in cell.code:
                check(reader)


def _reason(left_out: tuple[LeftOut, ...], cell: Cell) -> str | None:
    return next((entry.reason for entry in left_out if entry.digest == cell.digest), None)


def _run(cell: Cell, plan: Plan, reader: Reading) -> None:
    for supplied in plan.supplied:
        if supplied.phrase in cell.code:
            reader.run(_filled(supplied.code, reader))
    _RUN[cell.language](reader, _replaced(cell.code, plan, reader))
    reader.expected = _replaced(cell.output, plan, reader)
    if cell.output and cell.digest not in plan.other_output:
        assert _plain(reader.printed) == _plain(reader.expected)


def _replaced(text: str, plan: Plan, reader: Reading) -> str:
    for replaced in plan.replaced:
        text = text.replace(replaced.phrase, _filled(replaced.by, reader))
    return text


def _run_python(reader: Reading, code: str) -> None:
    reader.printed = reader.run(code)


def _run_yaml(reader: Reading, code: str) -> None:
    reader.printed = json.dumps(yaml.safe_load(code))


_RUN: Mapping[str, Callable[[Reading, str], None]] = {
    "python": _run_python,
    "bash": Reading.shell,
    "yaml": _run_yaml,
}


def _filled(text: str, reader: Reading) -> str:
    """The text with `{port:8000}` as the port that takes its place."""
    return re.sub(r"\{port:(\w+)\}", lambda found: str(reader.port(found[1])), text)


def _plain(text: str) -> str:
    """A text without white space, of which the stored tutorials have lost some."""
    return "".join(text.split())
