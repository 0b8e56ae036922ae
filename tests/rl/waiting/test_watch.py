"""A run reports what waits for what, ends processes that do not answer, and does not wait for ever."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from openenv.hosting.server_process import ServerProcess, free_port, module_command
from openenv.rl.waiting import watch as watch_module
from openenv.rl.waiting.server_part import ServerPart
from openenv.rl.waiting.status import PartStatus, RunStatus
from openenv.rl.waiting.waits import Waits
from openenv.rl.waiting.watch import Part, Stuck, Watch


class Run:
    """What a watch asks of a run."""

    def __init__(self, parts: Sequence[Part] = ()) -> None:
        self.waits = Waits()
        self._parts = parts

    def parts(self) -> Sequence[Part]:
        return self._parts

    def position(self) -> tuple[int, Mapping[str, int], int]:
        return 7, {"the trainer": 7, "the rollouts": 6}, 1


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "_EVERY_S", 0.05)


@contextlib.asynccontextmanager
async def watched(run: Run, folder: Path, limit_s: float | None = None) -> AsyncIterator["asyncio.Queue[RunStatus]"]:
    """Watch a run. Yields where its newest statuses are."""
    statuses: asyncio.Queue[RunStatus] = asyncio.Queue()
    watching = asyncio.ensure_future(Watch(folder, run.waits, run, limit_s, statuses.put_nowait).run())
    try:
        yield statuses
    finally:
        watching.cancel()
        await asyncio.wait([watching])


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    """A real server of a bundled environment."""
    port = free_port()
    process = ServerProcess(module_command("openenv.envs.echo_env.server.app", port), f"http://127.0.0.1:{port}")
    try:
        process.wait_until_healthy(60.0)
        yield process
    finally:
        process.stop()


async def test_the_status_names_each_wait_with_its_number_and_its_age(tmp_path: Path) -> None:
    run = Run()
    with (
        run.waits.of("part 0", "generator 1"),
        run.waits.of("part 1", "its server"),
        run.waits.of("part 1", "its server"),
    ):
        async with watched(run, tmp_path) as statuses:
            await statuses.get()
            status = RunStatus.read(tmp_path)

    assert status is not None
    assert {(one.waiter, one.awaited, one.number) for one in status.waits} == {
        ("part 0", "generator 1", 1),
        ("part 1", "its server", 2),
    }
    assert str(status.all_waits[0]) == "part 0 waits for generator 1 since 0 s"
    assert (status.step, status.versions, status.steps_waiting) == (7, {"the trainer": 7, "the rollouts": 6}, 1)
    assert status.pid == os.getpid()
    assert not run.waits.now()


async def test_a_server_that_does_not_answer_is_named_and_ended(
    server: ServerProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run([ServerPart("the echo server", server.base_url, server, patience_s=0.5)])
    async with watched(run, tmp_path) as statuses, asyncio.timeout(30):
        while not (await statuses.get()).parts:
            pass
        os.kill(server.pid, signal.SIGSTOP)
        silent = [await statuses.get()]
        while len(run.waits.events) < 2:
            silent.append(await statuses.get())

    assert not server.is_running
    assert "the echo server has not answered for 1 s: it is ended, and begins again" in caplog.text
    assert max(one.parts[0].silent_s for one in silent) > 0.1
    assert [event.what for event in run.waits.events] == [
        "answers",
        "has not answered for 1 s: it is ended, and begins again",
    ]
    assert "no answer from the echo server" in (tmp_path / "stacks/driver.txt").read_text()


async def test_a_server_that_has_ended_is_not_ended_again_while_it_begins(
    server: ServerProcess, tmp_path: Path
) -> None:
    run = Run([ServerPart("the echo server", server.base_url, server, patience_s=0.3)])
    async with watched(run, tmp_path) as statuses, asyncio.timeout(30):
        while not (await statuses.get()).parts:
            pass
        server.kill()
        while len(run.waits.events) < 2:
            await statuses.get()
        for _ in range(20):
            await statuses.get()

    assert [event.what for event in run.waits.events] == ["answers", "has ended"]


async def test_an_end_between_two_questions_is_recorded_too(tmp_path: Path) -> None:
    class Restarting:
        name, patience_s, pid = "generator 0", 30.0, 1

        async def status(self) -> PartStatus:
            return PartStatus(name=self.name, pid=self.pid)

        async def write_stacks(self, reason: str) -> None:
            raise NotImplementedError

        async def end(self, last: PartStatus) -> bool:
            raise NotImplementedError

    part = Restarting()
    run = Run([part])
    async with watched(run, tmp_path) as statuses, asyncio.timeout(30):
        while not (await statuses.get()).parts:
            pass
        part.pid = 2
        while len(run.waits.events) < 3:
            starts = (await statuses.get()).parts[0].starts

    assert [event.what for event in run.waits.events] == ["answers", "has ended", "answers"]
    assert starts == 2


async def test_a_server_that_the_run_has_not_started_is_named_once_and_not_ended(
    server: ServerProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run([ServerPart("the echo server", server.base_url, None, patience_s=0.5)])
    async with watched(run, tmp_path) as statuses, asyncio.timeout(30):
        while not (await statuses.get()).parts:
            pass
        os.kill(server.pid, signal.SIGSTOP)
        while len(run.waits.events) < 2:
            await statuses.get()
        for _ in range(20):
            await statuses.get()
    os.kill(server.pid, signal.SIGCONT)

    assert caplog.text.count("the run has not started it, and does not end it") == 1
    assert server.is_running


async def test_a_run_in_which_nothing_arrives_ends_with_the_longest_waits(tmp_path: Path) -> None:
    run = Run()
    with run.waits.of("part 0", "generator 1"):
        watch = Watch(tmp_path, run.waits, run, 0.3)
        with pytest.raises(Stuck, match=r"nothing has arrived .*: part 0 waits for generator 1 since 0 s\. .*stacks"):
            await asyncio.wait_for(watch.run(), 30)
    watch.close()

    assert "test_a_run_in_which_nothing_arrives" in (tmp_path / "stacks/driver.txt").read_text()


async def test_a_run_in_which_something_arrives_goes_on(tmp_path: Path) -> None:
    run = Run()
    async with watched(run, tmp_path, limit_s=0.3) as statuses, asyncio.timeout(30):
        for _ in range(20):
            await statuses.get()
            with run.waits.of("part 0", "generator 1"):
                pass


@pytest.mark.parametrize("is_stuck", [False, True])
def test_a_process_whose_event_loop_is_blocked_writes_its_stacks_and_ends_if_its_run_was_to_end(
    tmp_path: Path, is_stuck: bool
) -> None:
    program = f"""
import asyncio, contextlib, time
from pathlib import Path
from openenv.rl.waiting import watch
from tests.rl.waiting.test_watch import Run

watch._ENDING_S = 0.5
async def main():
    run = Run()
    watching = asyncio.ensure_future(watch.Watch(Path({str(tmp_path)!r}), run.waits, run, 0.2).run())
    await (asyncio.wait([watching]) if {is_stuck} else asyncio.sleep(0))
    time.sleep(2)

asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", program], timeout=50, check=False)

    assert ended.returncode == is_stuck
    assert "in main" in (tmp_path / "stacks/driver.txt").read_text()


async def test_a_pause_of_the_driver_counts_for_nothing_else(server: ServerProcess, tmp_path: Path) -> None:
    run = Run([ServerPart("the echo server", server.base_url, server, patience_s=3)])
    async with watched(run, tmp_path, limit_s=3) as statuses, asyncio.timeout(30):
        while not (await statuses.get()).parts:
            pass
        time.sleep(4)  # noqa: ASYNC251  the driver does something else
        for _ in range(5):
            await statuses.get()

    assert [event.what for event in run.waits.events] == ["answers"]
    assert server.is_running
