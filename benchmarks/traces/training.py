"""The way of a training run from its YAML to a gradient: `python -m benchmarks.traces.training [--no-tree]`.

A tiny model makes one step of the guessing game, as `openenv train FILE` does. On the way are the functions of
`STATIONS`, and those that called them: also the function that started the task or the thread of a call. Each is
counted where the run first comes to it. A stay is a row of functions of one file, and a return a stay in a file
that the way has been to before.
"""

import argparse
import asyncio
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock
from weakref import WeakKeyDictionary

import torch
from rich.console import Console
from rich.table import Table

import openenv
from openenv.cli.main import main as command
from openenv.rl import run as rl_run

ROOT = str(Path(openenv.__file__).parent) + "/"
CONFIGURATION = """\
env: guess
pretrain: {{steps: 2, max_decisions: 2000}}
trainer: {{training: {{steps: 1}}}}
evaluation: {{num_games: 10, interval: 0}}
checkpoint: {{folder: {folder}}}
"""


class Function(NamedTuple):
    """One of ours. file: below `src/openenv`."""

    file: str
    name: str


STATIONS = {
    Function("rl/config_file.py", "config_from_mapping"): "settings are read",
    Function("rl/environments.py", "serve_environment"): "the environment is served",
    Function("rl/models/language_model.py", "random_model"): "the model is made",
    Function("rl/training/supervised.py", "train_supervised"): "it learns to reply",
    Function("rl/models/prompt_tokens.py", "PromptTokens.of"): "a prompt becomes tokens",
    Function("rl/generators/drawing.py", "chosen"): "a token is drawn",
    Function("text/derived.py", "DerivedText.parse"): "a reply becomes an action",
    Function("core/vector/batched_session.py", "BatchedSession.step"): "the environment steps",
    Function("rl/algorithm/rewards.py", "EpisodeReward.__call__"): "an episode is rewarded",
    Function("rl/algorithm/replay_buffer.py", "ReplayBuffer.put"): "groups are kept",
    Function("rl/algorithm/advantages.py", "batch_advantages"): "they have advantages",
    Function("rl/algorithm/batch.py", "make_batch"): "they are a batch",
    Function("rl/models/language_model.py", "next_token_logits"): "the model runs",
    Function("rl/algorithm/loss.py", "token_losses"): "there is a loss",
}
"""What happens between the settings and a gradient, and where."""


class Way:
    """Records the way of the calls while it is open, until the trainer's gradient."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        """In the order in which the run first came to them."""
        self.reached: set[Function] = set()
        """The stations that were called."""
        self.is_at_gradient = False
        self._tasks: WeakKeyDictionary[Any, list[Function]] = WeakKeyDictionary()
        self._thread = threading.local()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is called in the block, in all threads that it starts.

        The run has the standard library's event loop, whose tasks can be followed to those who made them.
        """
        make_task, submit = asyncio.BaseEventLoop.create_task, ThreadPoolExecutor.submit
        backward: Any = torch.autograd.backward

        def task_made(loop: Any, *args: Any, **keywords: Any) -> Any:
            task = make_task(loop, *args, **keywords)
            self._tasks[task] = self._callers(sys._getframe(1))
            return task

        def submitted(pool: Any, function: Any, /, *args: Any, **keywords: Any) -> Any:
            callers = self._callers(sys._getframe(1))

            def run(*args: Any, **keywords: Any) -> Any:
                self._thread.callers = callers
                return function(*args, **keywords)

            return submit(pool, run, *args, **keywords)

        def gradient(*args: Any, **keywords: Any) -> None:
            in_trainer = sys._getframe(1).f_code.co_filename == ROOT + "rl/training/trainer.py"
            self.is_at_gradient = self.is_at_gradient or in_trainer
            backward(*args, **keywords)

        with (
            mock.patch.object(asyncio.BaseEventLoop, "create_task", task_made),
            mock.patch.object(ThreadPoolExecutor, "submit", submitted),
            mock.patch.object(torch.autograd, "backward", gradient),
            mock.patch.object(rl_run, "auto_loop_factory", return_value=asyncio.new_event_loop),
        ):
            threading.setprofile(self._on_event)
            sys.setprofile(self._on_event)
            try:
                yield
            finally:
                sys.setprofile(None)
                threading.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or self.is_at_gradient or not frame.f_code.co_filename.startswith(ROOT):
            return
        station = _function(frame)
        if station in STATIONS:
            self.reached.add(station)
            self.functions += [one for one in dict.fromkeys(self._callers(frame)) if one not in self.functions]

    def _callers(self, frame: FrameType | None) -> list[Function]:
        """Our functions around a frame, itself included, outermost first, with those that started its task."""
        around: list[Function] = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(ROOT) and not frame.f_code.co_name.startswith("<"):
                around.append(_function(frame))
            frame = frame.f_back
        return [*self._started_by(), *reversed(around)]

    def _started_by(self) -> list[Function]:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no event loop runs in this thread
            return getattr(self._thread, "callers", [])
        return self._tasks.get(task, []) if task is not None else []


def _function(frame: FrameType) -> Function:
    return Function(frame.f_code.co_filename.removeprefix(ROOT), frame.f_code.co_qualname)


def stays(functions: Sequence[Function]) -> list[tuple[str, list[str]]]:
    """The files of the way, each with the functions of one stay."""
    return [(file, [one.name for one in group]) for file, group in groupby(functions, key=lambda one: one.file)]


def folder_of(file: str) -> str:
    """The package that a file is in."""
    return file.rpartition("/")[0]


def figures(functions: Sequence[Function]) -> dict[str, int]:
    """What is counted of a way."""
    files = [file for file, _ in stays(functions)]
    return {
        "functions": len(functions),
        "stays": len(files),
        "files": len(set(files)),
        "packages": len(set(map(folder_of, files))),
        "returns": len(files) - len(set(files)),
    }


def train() -> Way:
    """Make a run of one step, and return its way. Raises RuntimeError where it left out a station."""
    way = Way()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "guess.yaml")
        file.write_text(CONFIGURATION.format(folder=Path(folder, "runs")), encoding="utf-8")
        before, sys.argv = sys.argv, ["openenv", "train", str(file)]
        try:
            with way.recording():
                command()
        except SystemExit as ended:
            if ended.code:
                raise
        finally:
            sys.argv = before
    if not way.is_at_gradient:
        raise RuntimeError("the trainer's gradient was not seen: is it torch.autograd.backward that makes it?")
    if missing := STATIONS.keys() - way.reached:
        raise RuntimeError(f"the run came to no place where {', or '.join(STATIONS[one] for one in sorted(missing))}")
    return way


def main(argv: Sequence[str] | None = None) -> None:
    """Print the figures and the way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-tree", action="store_true", help="Print the figures without the functions.")
    args = parser.parse_args(argv)
    way = train()
    console = Console(width=140)
    if not args.no_tree:
        for file, names in stays(way.functions):
            console.print(f"{file:<40} {', '.join(names)}", highlight=False, markup=False)
    counted = figures(way.functions)
    table = Table(*counted, title="From YAML to a gradient")
    table.add_row(*map(str, counted.values()))
    console.print(table)


if __name__ == "__main__":
    main()
