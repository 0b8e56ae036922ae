"""Reads what was recorded of the published server, and asks another server the same."""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

FOLDER = Path(__file__).with_name("recorded")
CLOSED = "[closed]"
ADDED_OVER_HTTP = {"session_id", "validity", "code", "message"}
"""What our HTTP answers contain beside what the published ones do."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PYDANTIC_VERSION = re.compile(r"errors\.pydantic\.dev/[\d.]+/")


@dataclass
class Exchange:
    """The requests, the answers recorded then, and the answers of this server."""

    asked: str
    then: Any
    now: Any


class _Ids:
    """Session ids of the recording, and those that stand for them now."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}

    def learn(self, then: Any, now: Any) -> None:
        for old, new in zip(_UUID.findall(json.dumps(then)), _UUID.findall(json.dumps(now)), strict=False):
            self._now[old] = new

    def translated(self, text: str) -> str:
        for old, new in self._now.items():
            text = text.replace(old, new)
        return text


def comparable(answer: Any) -> Any:
    """An answer without what differs from run to run: session ids, versions, and a counter of the recording's own."""
    text = _PYDANTIC_VERSION.sub("errors.pydantic.dev/", _UUID.sub("<id>", json.dumps(answer)))
    return _without(json.loads(text), {"n_created"})


def _without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(item, keys) for key, item in value.items() if key not in keys}
    return [_without(item, keys) for item in value] if isinstance(value, list) else value


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# WebSocket recordings: `### title`, `C> frame`, `S< frame`.


def websocket_exchanges(name: str, url: str) -> Iterator[Exchange]:
    """Plays a recording of frames. A section past the third begins with nothing open, as it did then."""
    player = _FramePlayer(url.replace("http://", "ws://"))
    with contextlib.closing(player):
        for line in (FOLDER / name).read_text().splitlines():
            if line.startswith("### "):
                player.section(line)
            elif line.startswith("conn "):
                player.another_connection()
            elif line.startswith("C> "):
                player.send(line.removeprefix("C> "))
            elif line.startswith("S< "):
                yield player.answer(line.removeprefix("S< "))


class _FramePlayer:
    def __init__(self, url: str) -> None:
        self._url = url
        self._target = "/ws"
        self._contexts = contextlib.ExitStack()
        self._open: list[ClientConnection] = []
        self._asked: list[str] = []
        self._title = ""

    def section(self, title: str) -> None:
        number = re.match(r"### (\d+)", title)
        if number is None or int(number[1]) > 3:
            self.close()
        self._title = title
        self._target = "/ws?session_id=deadbeef" if "unknown session_id" in title else "/ws"
        if "/mcp websocket" in title:
            self._target = "/mcp"

    def another_connection(self) -> None:
        self._open.append(self._contexts.enter_context(connect(self._url + self._target)))
        self._asked = []

    def send(self, frame: str) -> None:
        if not self._open:
            self.another_connection()
        binary = re.fullmatch(r"b'(.*)'", frame)
        self._asked.append(frame)
        with contextlib.suppress(ConnectionClosed):  # a full server closes before it is asked anything
            self._open[-1].send(binary[1].encode() if binary else frame)

    def answer(self, then: str) -> Exchange:
        if not self._open:
            self.another_connection()
        try:
            now: Any = _json_or_text(str(self._open[-1].recv(timeout=2)))
        except ConnectionClosed as closed:
            now = f"{CLOSED} rcvd: {closed.rcvd.code if closed.rcvd else None} (OK)"
            self._open.pop()
        except TimeoutError:
            now = "nothing"
        asked = self._asked.pop(0) if self._asked else self._title
        return Exchange(asked, _json_or_text(then), now)

    def close(self) -> None:
        self._contexts.close()
        self._open, self._asked = [], []


# HTTP recordings: `> METHOD path  body`, `< status type`, body.


def http_exchanges(name: str, url: str) -> Iterator[Exchange]:
    """Plays a recording of requests; `then` and `now` are (status, body)."""
    ids = _Ids()
    lines = (FOLDER / name).read_text().splitlines()
    headers = {"Content-Type": "application/json", "Connection": "close"}  # after a 500 the published server hangs up
    for number, line in enumerate(lines):
        if not line.startswith("> "):
            continue
        method, path, body = (*line.removeprefix("> ").split(" ", 2), "")[:3]
        status, then = lines[number + 1].split()[1], _json_or_text(lines[number + 2])
        content = ids.translated(body.strip()) or None
        response = httpx.request(method, url + path, content=content, headers=headers, timeout=10)
        now = _json_or_text(response.text)
        ids.learn(then, now)
        yield Exchange(line, (int(status), then), (response.status_code, now))
