"""The frames of the page about the wire, sent to a server."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from openenv.core.env_server.http import route_class
from openenv.core.wire.constants import SUBPROTOCOL
from openenv.envs.echo_env.server.app import program
from tests.conftest import running

PAGE = (Path(__file__).parents[2] / "docs/wire.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
CHANGING = {"session_id", "url"}
"""Keys of replies that no page can know."""


def _frames(block: str) -> Iterator[tuple[str, Any]]:
    """The direction of each frame, and its JSON, which may be broken into lines."""
    for frame in re.split(r"^(?=[<>] )", block, flags=re.MULTILINE):
        if frame:
            yield frame[0], json.loads(" ".join(frame[2:].split()))


def _known(reply: Any) -> Any:
    """A reply without what changes."""
    if isinstance(reply, dict):
        return {key: _known(value) for key, value in reply.items() if key not in CHANGING}
    return [_known(value) for value in reply] if isinstance(reply, list) else reply


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_server_replies_as_the_page_shows(block: str) -> None:
    frames = list(_frames(block))
    dialect = [SUBPROTOCOL] if frames[0][1]["type"] == "session" else None
    with running(program.app()) as url, connect(f"{url.replace('http', 'ws', 1)}/ws", subprotocols=dialect) as ws:
        for direction, frame in frames:
            if direction == ">":
                ws.send(json.dumps(frame))
            else:
                assert _known(json.loads(ws.recv())) == _known(frame)


def test_the_page_has_the_status_of_every_code() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.*) \|$", PAGE, re.MULTILINE)
    shown = {code: int(status) for status, codes in rows for code in re.findall(r"[A-Z_]+", codes)}

    assert shown == {**route_class._STATUS, "UNAUTHORIZED": 401}
