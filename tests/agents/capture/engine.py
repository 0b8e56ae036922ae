"""An engine that returns its tokens, as vLLM does: a token is a character, and replies are those of a test."""

import itertools
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse

LOGPROB = -0.5


@dataclass
class CharacterEngine:
    """The engine, and what it was asked."""

    replies: list[Any] = field(default_factory=list)
    """Texts, messages with `tool_calls`, or HTTP statuses of failures, in their order; then "ok" for ever."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    returns_tokens: bool = True

    def app(self) -> FastAPI:
        """The application."""
        app = FastAPI()
        app.post("/v1/chat/completions")(self.complete)
        app.get("/v1/models")(lambda: {"data": [{"id": "characters"}]})
        return app

    def complete(self, body: dict[str, Any]) -> Any:
        """A reply."""
        self.bodies.append(body)
        reply = self.replies.pop(0) if self.replies else "ok"
        if isinstance(reply, int):
            return JSONResponse({"error": {"message": "the prompt is too long"}}, reply)
        message = {"content": reply} if isinstance(reply, str) else reply
        sampled = encoded({"role": "assistant", **message})[len("assistant:") :]
        prompt = [*itertools.chain(*map(encoded, body["messages"])), *map(ord, "assistant:")]
        choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(sampled)}
        if not self.returns_tokens:
            return {"choices": [choice], "usage": usage}
        content = [{"token": f"token_id:{token}", "logprob": LOGPROB} for token in sampled]
        choice |= {"token_ids": sampled, "logprobs": {"content": content}}
        return {"choices": [choice], "prompt_token_ids": prompt, "usage": usage}


def encoded(message: dict[str, Any]) -> list[int]:
    """The tokens of a message."""
    calls = "".join(call["function"]["name"] for call in message.get("tool_calls") or ())
    return list(map(ord, f"{message['role']}:{message.get('content') or ''}{calls}\n"))


def text(ids: list[int]) -> str:
    """What tokens say."""
    return "".join(map(chr, ids))
