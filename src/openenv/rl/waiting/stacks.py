"""The stacks of a process of the run, in a file of the run's folder."""

import asyncio
import faulthandler
import time
from pathlib import Path
from typing import TextIO


class Stacks:
    """Writes what all threads and tasks of this process do."""

    def __init__(self, run_dir: Path, name: str) -> None:
        """name: of the process, such as generator 0."""
        self.path = run_dir / "stacks" / f"{name.replace(' ', '_')}.txt"
        self._file: TextIO | None = None

    def write(self, reason: str) -> None:
        """Add the stacks of this moment. Call it in the event loop."""
        file = self._opened()
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {reason}", file=file, flush=True)
        faulthandler.dump_traceback(file)
        for task in sorted(asyncio.all_tasks(), key=lambda one: one.get_name()):
            task.print_stack(limit=20, file=file)
        file.flush()

    def write_unless_called(self, within_s: float, *, end: bool = False) -> None:
        """Add the stacks of the threads, unless this or `close` is called within so many seconds.

        It works in a process whose event loop, or interpreter, does not go on. end: the process ends then, with 1. The
        process has one such timer: that of the last call.
        """
        faulthandler.dump_traceback_later(within_s, file=self._opened(), exit=end)

    def close(self) -> None:
        """Write nothing more, until it is called again. The file goes if it is empty."""
        if self._file is None:
            return
        faulthandler.cancel_dump_traceback_later()
        self._file.close()
        self._file = None
        if not self.path.stat().st_size:
            self.path.unlink()

    def _opened(self) -> TextIO:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a", encoding="utf-8")
        return self._file
