"""Stockfish in a process of its own, over the Universal Chess Interface. Equal positions get equal moves."""

import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from threading import Timer

_OPTIONS = ("setoption name Threads value 1", "setoption name Hash value 4")
DEBIAN_FOLDER = "/usr/games"
"""Debian installs Stockfish here, where not every PATH leads."""


def find_stockfish() -> str | None:
    """The program's path; None if it is not installed."""
    return shutil.which("stockfish") or shutil.which("stockfish", path=DEBIAN_FOLDER)


class Stockfish:
    """One engine, started for its first move and again after it has failed."""

    def __init__(self, answer_s: float = 30.0) -> None:
        """answer_s: an engine that has no move after so many seconds is killed.

        Raises ValueError, with what to install, if there is no such program.
        """
        path = find_stockfish()
        if path is None:
            raise ValueError(
                "opponent_policy='stockfish': there is no program `stockfish`. Install it, for example with "
                "`apt-get install stockfish` or `brew install stockfish`, or choose another policy."
            )
        self._path, self._answer_s = path, answer_s
        self._process: subprocess.Popen[str] | None = None

    def best_move(self, start_fen: str, moves: Sequence[str], nodes: int) -> str:
        """The engine's move in UCI after some moves in UCI. It remembers nothing of what it has searched before.

        Raises RuntimeError if it ends or is killed before.
        """
        process = self._running()
        killer = Timer(self._answer_s, process.kill)
        killer.start()
        position = f"position fen {start_fen} moves {' '.join(moves)}"
        try:
            answer = _ask(process, ["ucinewgame", "isready"], "readyok")
            answer = answer and _ask(process, [position, f"go nodes {nodes}"], "bestmove")
        finally:
            killer.cancel()
        if not answer:
            self.close()
            raise RuntimeError(f"Stockfish ended, or had no move after {self._answer_s:g} s. Take the step again.")
        return answer.split()[1]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None:
            self._process = subprocess.Popen(
                [self._path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                bufsize=1,
            )
            _send(self._process, ["uci", *_OPTIONS])
        return self._process


def _send(process: "subprocess.Popen[str]", commands: Sequence[str]) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # the engine has ended: nothing more can be read
        process.stdin.write("\n".join(commands) + "\n")
        process.stdin.flush()


def _ask(process: "subprocess.Popen[str]", commands: Sequence[str], expected: str) -> str:
    """Send commands; return the line that begins with a word. Empty if the engine ends before."""
    _send(process, commands)
    assert process.stdout is not None
    return next((line for line in process.stdout if line.startswith(expected)), "")
