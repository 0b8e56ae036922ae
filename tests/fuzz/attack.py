"""Many connections that send odd frames for a while, and what must hold of the answers."""

import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

import openenv
from openenv.core.wire.arrays import unpacked
from tests.fuzz.mutations import Frame, FrameFuzzer, may_close

ANSWER_S = 10.0
PATHS = (str(Path(openenv.__file__).parent), sys.prefix, sys.base_prefix, tempfile.gettempdir(), str(Path.home()))
"""The folder of the server's files; no answer may contain it."""
FEWEST_ANSWERS = 200
"""A slow machine is given the time that these take."""
CLOSES = (1000, 1007)
"""Asked for, or refused at the door; and text that is no UTF-8."""


@dataclass(frozen=True)
class Target:
    """An endpoint, and frames that it takes."""

    path: str
    valid: Sequence[dict[str, Any]]
    subprotocol: str | None = None

    def __str__(self) -> str:
        return f"{self.path} {self.subprotocol or ''}".rstrip()


async def attack(base_url: str, targets: Sequence[Target], *, seed: int, seconds: float, connections: int) -> Counter:
    """Send odd frames to the targets over that many connections at a time, for that long and until enough are answered.

    Returns what was counted. Raises AssertionError, with the seed and the frames, when a frame is not answered or an
    answer reveals too much.
    """
    counted: Counter[str] = Counter()
    deadline = time.monotonic() + seconds

    def is_enough() -> bool:
        return time.monotonic() > deadline and counted["answers"] >= FEWEST_ANSWERS

    async with asyncio.TaskGroup() as group:
        for worker in range(connections):
            rng = Random(f"{seed} {worker}")
            drawn = _drawn(targets, worker, rng)
            group.create_task(_attack_on(base_url, drawn, rng, is_enough, counted))
    return counted


def _drawn(targets: Sequence[Target], worker: int, rng: Random) -> Iterator[Target]:
    """Random targets after the first one, so that each target is attacked."""
    yield targets[worker % len(targets)]
    while True:
        yield rng.choice(targets)


async def _attack_on(
    base_url: str, targets: Iterator[Target], rng: Random, is_enough: Callable[[], bool], counted: Counter[str]
) -> None:
    while not is_enough():
        target = next(targets)
        offered = [Subprotocol(target.subprotocol)] if target.subprotocol else None
        async with connect(
            f"ws{base_url.removeprefix('http')}{target.path}", subprotocols=offered, compression=None,
            ping_interval=None, max_size=None, open_timeout=ANSWER_S, proxy=None,
        ) as connection:  # fmt: skip
            counted["connections"] += 1
            first = _read(await connection.recv(), []) if target.subprotocol else {}
            if first.get("type") == "error":
                assert first["data"]["code"] == "CAPACITY_REACHED", first
                counted["found the server full"] += 1
                continue
            counted[str(target)] += 1
            fuzzer = FrameFuzzer(rng, target.valid)
            for _ in range(rng.randint(1, 30)):
                if not await _burst(connection, fuzzer, rng, counted) or is_enough():
                    break


async def _burst(connection: ClientConnection, fuzzer: FrameFuzzer, rng: Random, counted: Counter[str]) -> bool:
    """Send a few frames at once and await their answers, or leave in between. Returns whether the connection lives."""
    frames = [fuzzer.frame() for _ in range(rng.choice((1, 1, 1, 2, 5, 40)))]
    is_broken_text = rng.random() < 0.005
    try:
        for frame in frames:
            await connection.send(frame)
        if is_broken_text:
            await connection.send(b'{"type": "\xff\xfe"}', text=True)
        counted["frames"] += len(frames)
        if rng.random() < 0.02:
            connection.transport.abort()
            counted["left without a word"] += 1
            return False
        for _ in frames:
            async with asyncio.timeout(ANSWER_S):
                _read(await connection.recv(), frames)
            counted["answers"] += 1
        if is_broken_text:
            async with asyncio.timeout(ANSWER_S):  # a refusal on /ws, on /mcp the end of the connection
                _read(await connection.recv(), frames)
    except TimeoutError:
        raise AssertionError(f"no answer in {ANSWER_S} s to {_shown(frames)}") from None
    except ConnectionClosed:
        counted["closed by the server"] += 1
        code = connection.close_code
        is_asked_for = any(map(may_close, frames)) or "CAPACITY" in counted
        assert (code in CLOSES and is_asked_for) or is_broken_text, f"closed with {code} on {_shown(frames)}"
        return False
    return True


def _read(raw: str | bytes, frames: Sequence[Frame]) -> dict[str, Any]:
    """An answer as an object. Raises AssertionError when it is none, or reveals what is internal to the server."""
    text = raw if isinstance(raw, str) else json.dumps(unpacked(raw), default=lambda array: array.tolist())
    assert "Traceback" not in text, f"{text[:2000]} on {_shown(frames)}"
    assert not any(path in text for path in PATHS), f"a path in {text[:2000]} on {_shown(frames)}"
    message = json.loads(text)
    assert isinstance(message, dict), text[:500]
    return message


def _shown(frames: Sequence[Frame]) -> str:
    return repr([frame[:300] for frame in frames])
