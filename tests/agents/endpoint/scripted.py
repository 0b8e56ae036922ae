"""A model that answers as a test wants, and keeps the requests."""

import asyncio
from collections import deque
from typing import Any

from openenv.agents.endpoint.requests import CalledTool, ModelAnswer, ModelReply, ModelRequest


class ScriptedModel:
    """Its answers are taken from the front; without one it replies hello."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.answers: deque[ModelAnswer | Exception] = deque()
        self.hold = asyncio.Event()
        """Calls wait until it is set, as it is at first."""
        self.hold.set()
        self.is_waiting = asyncio.Event()
        self.is_cancelled = asyncio.Event()

    @property
    def request(self) -> ModelRequest:
        """The last one."""
        return self.requests[-1]

    def reply(self, content: str = "", **fields: Any) -> None:
        """Answer a call with one reply of three tokens to a prompt of seven."""
        self.answers.append(ModelAnswer((ModelReply(content, num_tokens=3, **fields),), num_prompt_tokens=7))

    def call_tools(self, *calls: tuple[str, str, str], content: str = "", **fields: Any) -> None:
        """Answer a call with calls of tools: their ids, names and arguments."""
        self.reply(content, tool_calls=tuple(CalledTool(*call) for call in calls), end="tool_calls", **fields)

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        self.requests.append(request)
        self.is_waiting.set()
        try:
            await self.hold.wait()
        except asyncio.CancelledError:
            self.is_cancelled.set()
            raise
        if not self.answers:
            return ModelAnswer((ModelReply("hello", num_tokens=3),) * request.num_replies, num_prompt_tokens=7)
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer
