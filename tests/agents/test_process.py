"""A program is started, exchanges lines, and is stopped with all that it has started."""

import os
import sys

import pytest

from openenv.agents import HarnessNotRunningError, HarnessProcess, HarnessStartupError
from tests.agents.test_environment import AGENT

pytestmark = [pytest.mark.finding("every public name of the published package exists here"), pytest.mark.process]

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; print('child', flush=True); time.sleep(600)"])
print(child.pid, flush=True)
sys.exit(input())
"""


async def test_a_program_that_ends_before_it_is_ready_is_an_error_with_its_output():
    process = HarnessProcess([sys.executable, "-c", "import sys; sys.exit('no key')"], ".")
    with pytest.raises(HarnessStartupError, match=r"ended before it was ready: no key"):
        await process.start(ready_check=lambda line: True)


async def test_a_program_that_is_not_ready_in_time_is_stopped():
    process = HarnessProcess(AGENT, ".", startup_timeout_s=0.2)
    with pytest.raises(HarnessStartupError, match=r"not ready in 0.2 s"):
        await process.start(ready_check=lambda line: False)
    assert not process.is_running()


async def test_a_program_that_does_not_exist_is_an_error():
    with pytest.raises(HarnessStartupError, match="cannot be started"):
        await HarnessProcess(["no-such-program"], ".").start()


async def test_lines_are_exchanged_until_the_program_ends():
    process = HarnessProcess(AGENT, ".")
    await process.start(ready_check=lambda line: line == "ready")
    await process.write_line("one")
    assert await process.read_line(timeout_s=30) == "ONE "
    await process.write_line("quit\n")
    assert [await process.read_line(timeout_s=30), await process.read_line(timeout_s=30)] == [None, None]
    await process.stop()

    assert process.drain_stderr() == "bye\n"
    with pytest.raises(HarnessNotRunningError, match="does not run"):
        await process.write_line("two")


async def test_a_ready_check_that_raises_stops_the_program():
    process = HarnessProcess(AGENT, ".")
    with pytest.raises(KeyError):
        await process.start(ready_check=lambda line: {}[line])

    assert not process.is_running()


async def test_stop_ends_what_a_program_that_has_ended_has_started():
    process = HarnessProcess([sys.executable, "-c", PARENT], ".")
    await process.start()
    lines = {await process.read_line(timeout_s=30) for _ in range(2)}
    await process.write_line("bye")
    while process.is_running():
        await process.read_line(timeout_s=0.01)
    await process.stop()

    (child,) = lines - {"child"}
    with pytest.raises(ProcessLookupError):
        os.kill(int(child), 0)


def test_the_program_and_its_settings_can_be_read():
    process = HarnessProcess(["agent"], "/work", {"KEY": "1"}, startup_timeout_s=2.0, terminate_grace_s=3.0)

    assert (process.command, process.cwd, process.env_vars) == (["agent"], "/work", {"KEY": "1"})
    assert (process.startup_timeout_s, process.terminate_grace_s) == (2.0, 3.0)
