"""The helpers that programs for the published package import."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest

from openenv.core.utils import LoopThread, convert_to_ws_url, hf_space_subdomain, run_async_safely

pytestmark = pytest.mark.finding("every public name of the published package exists here")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:8000", "ws://localhost:8000"),
        ("https://example.org/env/", "wss://example.org/env"),
        ("localhost:8000", "ws://localhost:8000"),
        ("ws://localhost:8000", "ws://localhost:8000"),
        ("wss://example.org/", "wss://example.org"),
    ],
)
def test_a_url_of_http_becomes_one_of_a_websocket(url, expected):
    assert convert_to_ws_url(url) == expected


def test_a_space_has_the_name_that_the_hub_gives_its_host():
    assert hf_space_subdomain("Owner/My_Env.v2") == "owner-my-env-v2"


async def _three() -> int:
    await asyncio.sleep(0)
    return 3


def test_a_coroutine_runs_without_a_loop():
    assert run_async_safely(_three()) == 3


async def test_a_coroutine_runs_inside_a_loop():
    assert run_async_safely(_three()) == 3


def test_an_error_of_a_coroutine_is_raised():
    async def fails():
        raise LookupError("nothing")

    with pytest.raises(LookupError, match="nothing"):
        run_async_safely(fails())


async def test_ctrl_c_cancels_a_coroutine_that_runs_beside_a_loop_and_waits_for_its_end(monkeypatch):
    begun, ended = threading.Event(), []

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    def interrupted(_future: Future[None], timeout: float | None = None) -> None:
        begun.wait(10)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, LoopThread() as thread:
        patch.setattr(Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            thread.run(endless())
        patch.undo()

        assert ended == ["cleaned up"]


def test_coroutines_run_and_end_where_the_program_ends() -> None:
    program = """
import asyncio, atexit
from openenv.core.utils import LoopThread

thread = LoopThread()
event = thread.run(asyncio.sleep(0, asyncio.Event()))

@atexit.register
def close():
    thread.run(asyncio.wait_for(event.wait(), 1) if event.is_set() else asyncio.sleep(0))
    thread.close()
    print("closed")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (ended.stdout, ended.stderr) == ("closed\n", "")
