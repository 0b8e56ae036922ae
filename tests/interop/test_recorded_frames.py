"""Our server answers what the published one was recorded to answer, except where it is meant to do better.

The recordings are of `recorded/minecho.py`, source written for the published package, which runs here as it is.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from openenv.hosting.server_process import free_port, wait_until_healthy
from tests.interop.transcripts import (
    ADDED_OVER_HTTP,
    CLOSED,
    FOLDER,
    Exchange,
    comparable,
    http_exchanges,
    websocket_exchanges,
)

pytestmark = pytest.mark.process

PUBLISHED = os.environ.get("PUBLISHED_PYTHON", ".venv-published/bin/python")
SIDES = ["ours", pytest.param("published", marks=pytest.mark.interop)]

Serve = Callable[..., str]


@pytest.fixture(params=SIDES)
def side(request) -> str:
    """Whose server is asked. The published one proves that the recordings are played as they were recorded."""
    return request.param


@pytest.fixture
def serve(side) -> Iterator[Serve]:
    """Runs a script of `recorded/` as a server; returns its URL."""
    processes = []

    def start(script: str, mode: str = "simulation") -> str:
        port = free_port()
        python = sys.executable if side == "ours" else PUBLISHED
        process = subprocess.Popen([python, str(FOLDER / script), str(port), mode], stderr=subprocess.DEVNULL)
        processes.append(process)
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=60)
        return f"http://127.0.0.1:{port}"

    yield start
    for process in processes:
        process.terminate()
        process.communicate(timeout=10)


def error(code: str, **more: Any) -> Callable[[Any], bool]:
    """An error frame of that code."""
    return lambda now: now["type"] == "error" and now["data"]["code"] == code


# The request, and our answer where WIRE.md calls the published answer wrong.
BETTER_FRAMES: dict[str, Callable[[Any], bool]] = {
    '{"type": "step", "data": {"message": "raise"}}': lambda now: now["data"]["message"] == "boom <path> path",
    '{"type": "step", "data": {"message": "numpy"}}': lambda now: (
        now["data"]["observation"]["payload"] == [[0, 0], [0, 0]]
    ),
    '{"type": "step", "data": {"message": "bytes"}}': lambda now: (  # names the field and the remedy
        now["data"]["code"] == "EXECUTION_ERROR" and "payload" in now["data"]["message"]
    ),
    '{"type": "step", "data": {"message": "nan"}}': error("EXECUTION_ERROR"),  # a diverged environment is no reward
    '{"type": "step", "data": {"message": "after done"}}': error("EPISODE_OVER"),
    '{"type": "step", "data": {"message": "badval"}}': error("VALIDATION_ERROR"),
    "[1,2]": error("INVALID_JSON"),
    'b\'{"type":"reset"}\'': error("INVALID_JSON"),
    "[1]": lambda now: now["error"]["code"] == -32700,
}


def differing_frames(exchanges: Iterator[Exchange], betters: dict[str, Callable[[Any], bool]]) -> list[Exchange]:
    """Exchanges whose answer is neither the recorded one nor the better one."""
    found, spared = [], ""
    for exchange in exchanges:
        better = betters.get(exchange.asked)
        if better is not None and better(exchange.now):
            spared = exchange.asked
        elif spared and str(exchange.then).startswith(CLOSED) and exchange.now == "nothing":
            spared = ""  # the published session died of it; ours lives on
        elif comparable(exchange.now) != comparable(exchange.then):
            found.append(exchange)
    return found


@pytest.mark.parametrize("recording", ["ws.txt", "ws2.txt"])
def test_frames_are_answered_as_recorded(recording, serve, side):
    exchanges = websocket_exchanges(recording, serve("minecho.py"))
    assert differing_frames(exchanges, BETTER_FRAMES if side == "ours" else {}) == []


BETTER_ANSWERS: dict[str, Callable[[int, Any], bool]] = {
    '> POST /step  {"action":{"message":"badval"}}': lambda status, body: status == 422,
    '> POST /step  {"action":{"message":"raise"}}': lambda status, body: (
        (status, body["code"], body["message"]) == (500, "EXECUTION_ERROR", "boom <path> path")
    ),
    '> POST /step  {"action":{"message":"nan"}}': lambda status, body: (
        (status, body["code"]) == (500, "EXECUTION_ERROR")
    ),
    '> POST /step  {"action":{"message":"numpy"}}': lambda status, body: (
        body["observation"]["payload"] == [[0, 0], [0, 0]]
    ),
    "> GET /state": lambda status, body: status == 200 and body["step_count"] > 0,  # the session goes on
}


def differing_answers(exchanges: Iterator[Exchange], betters: dict[str, Callable[[int, Any], bool]]) -> list[Exchange]:
    """The same for HTTP."""
    found = []
    for exchange in exchanges:
        (then_status, then), (now_status, now) = exchange.then, exchange.now
        if isinstance(then, dict) and isinstance(now, dict):
            now = {key: value for key, value in now.items() if key in then or key not in ADDED_OVER_HTTP}
        if isinstance(then, str):  # a page, or the beginning of a long answer
            now = then = ""
        better = betters.get(exchange.asked)
        if (now_status, comparable(now)) != (then_status, comparable(then)) and not (better and better(*exchange.now)):
            found.append(exchange)
    return found


def without_descriptions(exchanges: Iterator[Exchange]) -> Iterator[Exchange]:
    """JSON Schemas are compared without the wording of their descriptions."""
    for exchange in exchanges:
        if exchange.asked == "> GET /schema":
            exchange.then, exchange.now = (_undescribed(answer) for answer in (exchange.then, exchange.now))
        yield exchange


def _undescribed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _undescribed(item) for key, item in value.items() if key != "description"}
    return tuple(map(_undescribed, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    ("recording", "script", "mode"),
    [
        ("http.txt", "minecho_with_tasks.py", "simulation"),
        ("prod.txt", "minecho_with_tasks.py", "production"),
        ("echo.txt", "mcp_echo.py", "simulation"),
    ],
)
def test_requests_are_answered_as_recorded(recording, script, mode, serve, side):
    exchanges = without_descriptions(http_exchanges(recording, serve(script, mode)))
    assert differing_answers(exchanges, BETTER_ANSWERS if side == "ours" else {}) == []


def test_in_production_a_session_plays_over_its_websocket(serve):
    url = serve("minecho.py", "production")
    with connect(url.replace("http", "ws") + "/ws") as connection:
        connection.send('{"type":"reset"}')
        assert json.loads(connection.recv())["type"] == "observation"


def test_every_recorded_route_exists(serve):
    url = serve("minecho_with_tasks.py")
    line = next(line for line in (FOLDER / "http.txt").read_text().splitlines() if line.startswith("openapi paths"))
    recorded = eval(line.partition(": ")[2])
    paths = httpx.get(f"{url}/openapi.json").json()["paths"]
    ours = {path.replace("{name}", "{env_name}"): list(methods) for path, methods in paths.items()}

    assert {path: ours.get(path) for path in recorded} == recorded
