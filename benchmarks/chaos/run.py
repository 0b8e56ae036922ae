"""A training run in a process of its own, as a user starts it, and what is left of it."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import yaml
from safetensors.torch import load_file
from torch import Tensor

from openenv.rl.reports.results import read_rows
from openenv.rl.waiting.status import RunStatus

_MARK = "OPENENV_CHAOS"
_POLL_S = 0.05
_LEAVING_S = 30.0


class Driver:
    """`openenv train` of one configuration, which is started again with `--resume` where it has ended."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        """folder: an empty one, for all that the run writes."""
        self.run_dir = folder / "runs" / settings["name"]
        self._folder = folder
        self._steps: int = settings["trainer"]["training"]["steps"]
        self._mark = uuid.uuid4().hex
        self._shared_memory = set(os.listdir("/dev/shm"))
        (folder / "run.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        self._log = (folder / "output.log").open("ab")
        self.process = self._started()

    def _started(self, *options: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "openenv", "train", "run.yaml", *options]
        variables = {**os.environ, _MARK: self._mark}
        return subprocess.Popen(
            command, cwd=self._folder, env=variables, stdout=self._log, stderr=self._log, start_new_session=True
        )

    def resume(self) -> None:
        """Start it again."""
        self.process.wait(60)
        self.process = self._started("--resume")

    @property
    def step(self) -> int:
        """The number of steps that are recorded."""
        rows = read_rows(self.run_dir / "metrics.jsonl")
        return rows[-1]["step"] if rows else 0

    @property
    def status(self) -> RunStatus | None:
        """The newest status of this process."""
        status = RunStatus.read(self.run_dir)
        return status if status is not None and status.pid == self.process.pid else None

    def wait_for_step(self, step: int, limit_s: float) -> None:
        """Wait until so many steps are made. Raises RuntimeError if the run ends before, TimeoutError."""
        deadline = time.monotonic() + limit_s
        while self.step < step:
            if self.process.poll() is not None:
                raise self._failure()
            if time.monotonic() > deadline:
                raise TimeoutError(f"step {step} was not made in {limit_s:.0f} s") from self._failure()
            time.sleep(_POLL_S)

    def wait(self, limit_s: float) -> None:
        """Wait for its end. Raises RuntimeError if it has not made all its steps.

        Its exit code is 1 also where it has learned nothing, which few steps may end with.
        """
        self.process.wait(limit_s)
        if self.step < self._steps:
            raise self._failure()

    def _failure(self) -> RuntimeError:
        """With the end of what it has printed."""
        output = (self._folder / "output.log").read_text(encoding="utf-8", errors="replace")
        return RuntimeError(f"the run is at step {self.step}, code {self.process.poll()}:\n{output[-4000:]}")

    def weights(self) -> dict[str, Tensor]:
        """Those after the last step."""
        newest = max((self.run_dir / "checkpoints").glob("step_*"))
        return load_file(newest / "model.safetensors")

    def left_behind(self) -> list[str]:
        """Processes and shared memory of the run that are still there half a minute after its end."""
        deadline = time.monotonic() + _LEAVING_S
        while (left := self._left()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return left

    def _left(self) -> list[str]:
        processes = [f"process {one.pid}: {' '.join(one.cmdline())[:80]}" for one in self._processes()]
        return processes + sorted(f"/dev/shm/{name}" for name in set(os.listdir("/dev/shm")) - self._shared_memory)

    def _processes(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            try:
                if process.environ().get(_MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    yield process
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue

    def end(self) -> None:
        """End it and all that it has started."""
        for process in list(self._processes()):
            os.kill(process.pid, signal.SIGKILL)
        self._log.close()
