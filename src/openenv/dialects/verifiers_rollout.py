"""A rollout of `verifiers` that takes one reply at a time: its own loop asks for it where it would ask a model."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from verifiers.clients import Client
from verifiers.types import Response, ResponseMessage, ToolCall

from openenv.formats.json_text import json_text

MODEL = "openenv"
"""The name of the model in a rollout's state."""


class SteppedRollout:
    """One episode of a verifiers environment. `begin` and `reply` return the newest messages, or None at the end."""

    def __init__(self, environment: Any, example: dict[str, Any]) -> None:
        """example: a row of the environment's dataset."""
        self.output: Any = None
        """The finished rollout, with its reward and metrics."""
        self._client = _SteppedClient()
        self._shown = 0
        self._rollout = asyncio.ensure_future(
            environment.run_rollout(example, self._client, MODEL, dict(environment.sampling_args))
        )

    async def begin(self) -> list[dict[str, Any]] | None:
        """The first messages; None for a rollout that ends before a reply."""
        return await self._next()

    async def reply(self, content: str, call: tuple[str, dict[str, Any]] | None = None) -> list[dict[str, Any]] | None:
        """Send the assistant's reply; return the messages that follow it. call: name and arguments of a tool."""
        self._client.replies.put_nowait(_response(content, call))
        self._shown += 1  # the reply itself is no news
        return await self._next()

    def cancel(self) -> None:
        """Give the rollout up. May be called from any thread."""
        self._rollout.get_loop().call_soon_threadsafe(self._rollout.cancel)

    async def _next(self) -> list[dict[str, Any]] | None:
        asked = asyncio.ensure_future(self._client.prompts.get())
        try:
            await asyncio.wait([asked, self._rollout], return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                prompt = [message.model_dump(exclude_none=True) for message in asked.result()]
                new, self._shown = prompt[self._shown :], len(prompt)
                return new
        finally:
            asked.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asked
        self.output = self._rollout.result()
        return None


class _SteppedClient(Client[None, Any, Response, Any]):  # type: ignore[misc]
    """A client of verifiers that has no model: it passes prompts on and waits for replies."""

    def __init__(self) -> None:
        super().__init__(None)
        self.prompts: asyncio.Queue[Sequence[Any]] = asyncio.Queue()
        self.replies: asyncio.Queue[Response] = asyncio.Queue()

    async def get_native_response(
        self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **kwargs: Any
    ) -> Response:
        """The reply of the program that steps the rollout."""
        self.prompts.put_nowait(prompt)
        return await self.replies.get()

    def setup_client(self, config: Any) -> None:
        """There is nothing to connect to."""

    async def to_native_tool(self, tool: Any) -> Any:
        """The tool as it is."""
        return tool

    async def to_native_prompt(self, messages: Any) -> tuple[Any, dict[str, Any]]:
        """The messages as they are."""
        return messages, {}

    async def raise_from_native_response(self, response: Response) -> None:
        """A reply of ours is always valid."""

    async def from_native_response(self, response: Response) -> Response:
        """The reply as it is."""
        return response

    async def close(self) -> None:
        """There is nothing to close."""


def _response(content: str, call: tuple[str, dict[str, Any]] | None) -> Response:
    calls = [ToolCall(id=f"call_{uuid4().hex[:12]}", name=call[0], arguments=json_text(call[1]))] if call else None
    message = ResponseMessage(
        content=content, tool_calls=calls, finish_reason="tool_calls" if calls else "stop", is_truncated=False
    )
    return Response(id=f"openenv-{uuid4().hex}", created=int(time.time()), model=MODEL, message=message)
