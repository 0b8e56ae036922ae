"""The stacks of a process of the run, in a file of the run's folder."""

import asyncio
import faulthandler
import time
from pathlib import Path


class Stacks:
    """Writes what all threads and tasks of this process do."""

    def __init__(self, run_dir: Path, name: str) -> None:
        """name: of the process, such as generator 0."""
        self.path = run_dir / "stacks" / f"{name.replace(' ', '_')}.txt"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a", encoding="utf-8")

    def write(self, reason: str) -> None:
        """Add the stacks of this moment. Call it in the event loop."""
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {reason}", file=self._file, flush=True)
        faulthandler.dump_traceback(self._file)
        for task in sorted(asyncio.all_tasks(), key=lambda one: one.get_name()):
            task.print_stack(limit=20, file=self._file)
        self._file.flush()

    def write_unless_called(self, within_s: float, *, end: bool = False) -> None:
        """Add the stacks of the threads, unless this is called again within so many seconds.

        It works in a process whose event loop, or interpreter, does not go on. end: the process ends then, with 1.
        """
        faulthandler.dump_traceback_later(within_s, file=self._file, exit=end)

    def close(self) -> None:
        """Nothing more is written. The file goes if it is empty."""
        end_called_off()
        self._file.close()
        if not self.path.stat().st_size:
            self.path.unlink()


def end_called_off() -> None:
    """The process goes on, whatever `Stacks.write_unless_called` was to do."""
    faulthandler.cancel_dump_traceback_later()
