"""A program in this process, which asks the model of one episode."""

from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import torch
from transformers import AutoConfig, LlamaForCausalLM

from openenv.agents.endpoint.requests import ModelAnswer, ModelReply, ModelRequest
from openenv.rl.agents.capture import Capture
from openenv.rl.agents.model import AgentModels, CapturedModel, TokenLimits
from openenv.rl.algorithm.segment import Segment
from openenv.rl.config import ModelConfig
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat, word_tokenizer
from openenv.rl.models.language_model import next_token_logits, random_model
from openenv.rl.models.reply_masks import masked
from openenv.rl.models.sources.tiny_vision import tiny_image_reader, tiny_vision_model
from tests.rl.models.small_models import byte_tokenizer, small_model

Message = dict[str, Any]
BOUND = 1e-4
TOOL = {
    "name": "deal",
    "description": "deal a card",
    "parameters": {"type": "object", "properties": {"seat": {"type": "integer"}}},
}
LIMITS = TokenLimits(900, 12)
QUESTION: Message = {"role": "user", "content": "hit or stand?"}


WRITES_BYTES = "bytes"
"""A model that can write JSON; the other small ones lack letters for it."""


def byte_model() -> tuple[Any, Any]:
    tokenizer = byte_tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = AutoConfig.for_model("llama", vocab_size=len(tokenizer), **sizes)
    return random_model(LlamaForCausalLM, config, seed=0), tokenizer


SEES = "images"
"""A model of vision and language."""


def seeing_model() -> tuple[Any, Chat]:
    tokenizer = word_tokenizer(["hit or stand ? once again"], images=True)
    settings = ModelConfig(hidden_size=32, num_layers=1, num_heads=2, intermediate_size=64)
    return tiny_vision_model(settings, tokenizer, max_length=1000, seed=1), Chat(
        tokenizer, image_reader=tiny_image_reader()
    )


class Player:
    """The model of one episode, asked by a program in this process."""

    def __init__(self, generator: Generator, model: CapturedModel) -> None:
        self.generator = generator
        self.model = model

    @property
    def capture(self) -> Capture:
        return self.model.capture

    async def ask(self, messages: Sequence[Message], **request: Any) -> ModelReply:
        answer: ModelAnswer = await self.model.answer(ModelRequest(tuple(messages), **request))
        return answer.replies[0]

    async def talk(self, messages: list[Message], questions: Sequence[str], **request: Any) -> list[Message]:
        """Append a reply and a question in turn. Returns the conversation after its last reply."""
        for question in questions:
            messages = [*messages, {"role": "user", "content": question}]
            messages.append(message_of(await self.ask(messages, **request)))
        return messages

    def require_exact(self) -> list[Segment]:
        """The sequences. In each the model finds what it sampled as likely as it was recorded."""
        segments = self.capture.segments()
        for segment in segments:
            ids = torch.from_numpy(segment.token_ids).long()[None]
            columns = torch.from_numpy(segment.sampled)[1:].nonzero()[:, 0]
            with torch.no_grad():
                logits = next_token_logits(
                    self.generator.model, ids, torch.zeros_like(columns), columns, [segment.images]
                )
            if segment.masks:
                logits = masked(logits, [segment.masks[column + 1] for column in columns.tolist()])
            logprobs = torch.log_softmax(logits, dim=-1).gather(1, ids[0, columns + 1][:, None])[:, 0]
            recorded = torch.from_numpy(segment.logprobs)[1:][columns]
            assert (logprobs - recorded).abs().max() < BOUND
        return segments


def message_of(reply: ModelReply) -> Message:
    """A reply as a program sends it back: with ids of its own, and without the thinking."""
    calls = [
        {"id": f"mine{number}", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for number, call in enumerate(reply.tool_calls)
    ]
    return {"role": "assistant", "content": reply.content or None, **({"tool_calls": calls} if calls else {})}


@asynccontextmanager
async def player(
    name: str = "Llama",
    *,
    seed: int = 0,
    limits: TokenLimits = LIMITS,
    has_ended: Callable[[], bool] = lambda: False,
    must_call: bool = False,
) -> AsyncIterator[Player]:
    if name == SEES:
        model, chat = seeing_model()
    else:
        model, tokenizer = byte_model() if name == WRITES_BYTES else small_model(name)
        chat = Chat(tokenizer)
    generator = Generator(model, chat, max_new_tokens=limits.reply, precision="float32")
    with ThreadPoolExecutor(1) as executor:
        async with generator.replies(generator.chat, executor) as replies:
            models = AgentModels(generator.chat, replies, limits)
            yield Player(generator, CapturedModel(models, 0, seed, has_ended, must_call=must_call))
