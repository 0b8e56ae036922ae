"""A server with the `/generate/` route of `trl vllm-serve`, as TRL's guide to OpenEnv calls it, on our generator."""

import random
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict

from openenv.integrations.trl.generators import TrainedModel
from openenv.rl.models.chat import Chat


class GenerateRequest(BaseModel):
    """The fields of TRL's request that the stand-in implements. Another field is refused (422)."""

    model_config = ConfigDict(extra="forbid")

    prompts: list[str]
    n: int = 1
    temperature: float = 1.0
    max_tokens: int = 16


class GenerateResponse(BaseModel):
    """TRL's answer: `prompt_ids` has one list a prompt, the others one a completion."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    logprobs: list[list[float]]


def generate_app(trained_model: Callable[[], Any], tokenizer: Any) -> FastAPI:
    """An application that completes texts. trained_model: gives the model, whose weights may change meanwhile."""
    app = FastAPI()
    chat = Chat(tokenizer, end_ids=[tokenizer.eos_token_id])
    numbers = random.Random(0)

    @app.post("/generate/")
    def generate(request: GenerateRequest) -> GenerateResponse:
        generator = TrainedModel(
            trained_model(), chat, max_new_tokens=request.max_tokens, temperature=request.temperature
        )
        prompts = [chat.encode(prompt) for prompt in request.prompts]
        copies = [prompt for prompt in prompts for _ in range(request.n)]
        segments = generator.generate(copies, [random.Random(numbers.random()) for _ in copies])
        return GenerateResponse(
            prompt_ids=[list(prompt) for prompt in prompts],
            completion_ids=[s.token_ids[len(p) :].tolist() for s, p in zip(segments, copies, strict=True)],
            logprobs=[s.logprobs[len(p) :].tolist() for s, p in zip(segments, copies, strict=True)],
        )

    return app
