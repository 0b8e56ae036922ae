"""A server with the `/generate/` route of `trl vllm-serve`, as TRL's guide to OpenEnv calls it, on our generator."""

import random
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from openenv.rl.models.chat import Chat
from openenv.rl.models.generator import Generator


class GenerateRequest(BaseModel):
    """What the route takes."""

    prompts: list[str]
    n: int = 1
    temperature: float = 1.0
    max_tokens: int = 16


def generate_app(model: Any, tokenizer: Any) -> FastAPI:
    """An application that completes texts with a model."""
    app = FastAPI()
    chat = Chat(tokenizer, end_ids=[tokenizer.eos_token_id])

    @app.post("/generate/")
    def generate(request: GenerateRequest) -> dict[str, list[list[Any]]]:
        generator = Generator(model, chat, max_new_tokens=request.max_tokens, temperature=request.temperature)
        prompts = [chat.encode(prompt) for prompt in request.prompts for _ in range(request.n)]
        segments = generator.generate(prompts, [random.Random(number) for number in range(len(prompts))])
        replies = [segment.token_ids[len(prompt) :] for segment, prompt in zip(segments, prompts, strict=True)]
        return {
            "prompt_ids": [list(chat.encode(prompt)) for prompt in request.prompts],
            "completion_ids": [list(reply) for reply in replies],
            "logprobs": [list(s.logprobs[len(p) :]) for s, p in zip(segments, prompts, strict=True)],
        }

    return app
