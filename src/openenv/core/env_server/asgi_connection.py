"""A WebSocket connection whose frames come and go through ASGI, as under any server but our own."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from openenv.core.arrays import BinaryFrame
from openenv.core.env_server.asgi import Message, Receive, Send

Answers = Callable[[Any], "bytes | Coroutine[Any, Any, bytes] | None"]
"""Takes a frame; returns its answer, a coroutine of it, or None to close. What is a BinaryFrame is no text."""
_MOST_AHEAD = 16
"""Frames that are read while their client waits for a session; the socket holds back what comes after them."""


class Connection(Protocol):
    """What the `/ws` endpoint needs of a connection that was accepted."""

    async def until_ended(self) -> bool:
        """Return when the connection has ended: whether the client said goodbye."""
        ...

    async def answer_with(self, answers: Answers) -> bool:
        """Let `answers` answer each frame, in order, until the connection ends; then as `until_ended`."""
        ...

    async def close(self) -> None:
        """Say goodbye and close the connection."""
        ...


class AsgiConnection:
    """Frames from `receive`, answers to `send`."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._ahead: deque[Message] = deque()

    async def until_ended(self) -> bool:
        """Look ahead for the end; what comes before it is answered later. What is too far ahead is not looked at."""
        while len(self._ahead) < _MOST_AHEAD:
            message = await self._receive()
            self._ahead.append(message)
            if message["type"] == "websocket.disconnect":
                return _said_goodbye(message)
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def answer_with(self, answers: Answers) -> bool:
        """Answer until the connection ends. Returns whether the client said goodbye."""
        while True:
            message = self._ahead.popleft() if self._ahead else await self._receive()
            if message["type"] == "websocket.disconnect":
                return _said_goodbye(message)
            text = message.get("text")
            reply = answers(BinaryFrame(message["bytes"]) if text is None else text)
            if reply is None:
                return True
            frame = reply if isinstance(reply, bytes) else await reply
            try:
                is_binary = isinstance(frame, BinaryFrame)
                await self._send(
                    {"type": "websocket.send", **({"bytes": frame} if is_binary else {"text": frame.decode()})}
                )
            except RuntimeError:  # ASGI's word for a connection that the server closed by itself: text is no UTF-8
                return False

    async def close(self) -> None:
        """Say goodbye, unless the connection is closed already."""
        with contextlib.suppress(RuntimeError):  # ASGI's word for that
            await self._send({"type": "websocket.close", "code": 1000})


def _said_goodbye(message: Message) -> bool:
    return message.get("code") in (1000, 1001)
