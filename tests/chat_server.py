"""A server that speaks /v1/chat/completions, as OpenAI-compatible services do, and replies as a test wants."""

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

Respond = Callable[[dict[str, Any]], str | dict[str, Any]]
"""Called with a request's body. Returns a text, or a message with `tool_calls`."""


@dataclass
class ChatService:
    """The application and what it was asked."""

    respond: Respond
    failures: list[int] = field(default_factory=list)
    """HTTP statuses of the next responses, before any reply."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    PROMPT_TOKENS = 7
    COMPLETION_TOKENS = 3

    def app(self) -> FastAPI:
        """The application."""
        app, numbers = FastAPI(), itertools.count()

        @app.post("/v1/chat/completions")
        async def complete(request: Request) -> Any:
            body = await request.json()
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
            if self.failures:
                return JSONResponse({"error": "busy"}, self.failures.pop(0), {"retry-after": "0"})
            found = self.respond(body)
            message = {"content": found} if isinstance(found, str) else found
            calls = bool(message.get("tool_calls"))
            choice = {"index": 0, "message": {"role": "assistant", **message}}
            return {
                "id": f"chatcmpl-{next(numbers)}",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [{**choice, "finish_reason": "tool_calls" if calls else "stop"}],
                "usage": {
                    "prompt_tokens": self.PROMPT_TOKENS,
                    "completion_tokens": self.COMPLETION_TOKENS,
                    "total_tokens": self.PROMPT_TOKENS + self.COMPLETION_TOKENS,
                },
            }

        return app


def call(name: str, arguments: Mapping[str, Any] | str, call_id: str = "call_0") -> dict[str, Any]:
    """A message that calls a function. arguments: a text is sent as it is."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": name, "arguments": text}
    return {"content": None, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}
