"""Generators that sample with the model that TRL trains: in this process, through TRL's vLLM, or on a vLLM server."""

import random
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedModel

from openenv.agents.llm.http import post_json, unexpected
from openenv.core.utils import run_async_safely
from openenv.rl.algorithm.segment import Segment
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat
from openenv.rl.models.images import Images
from openenv.rl.models.language_model import end_ids
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.text.constraints import ReplyConstraint

_TIMEOUT_S = 600.0


class TrainedModel(Generator):
    """Samples with the trainer's own model, without dropout, and leaves it in the mode in which it was."""

    def __init__(self, model: PreTrainedModel, chat: Chat, *, max_new_tokens: int, temperature: float) -> None:
        was_training = model.training
        super().__init__(model, chat, max_new_tokens=max_new_tokens, temperature=temperature)
        model.train(was_training)
        self._captured = None  # TRL may change forward and weights between two calls

    def generate(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[random.Random],
        images: Sequence[Images] = (),
        constraints: Sequence[ReplyConstraint | None] = (),
    ) -> list[Segment]:
        """As `Generator.generate`."""
        was_training = self.model.training
        self.model.train(False)
        try:
            return super().generate(prompts, streams, images, constraints)
        finally:
            self.model.train(was_training)


class TrainerVllm(BaseGenerator):
    """Samples through the trainer's vLLM, to which TRL gives the newest weights before each rollout."""

    def __init__(self, vllm: Any, chat: Chat, *, max_new_tokens: int) -> None:
        """vllm: the trainer's `vllm_generation`."""
        super().__init__(chat, max_new_tokens=max_new_tokens, store=None, temperature=1.0)
        self._vllm = vllm

    def generate(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[random.Random],
        images: Sequence[Images] = (),
        constraints: Sequence[ReplyConstraint | None] = (),
    ) -> list[Segment]:
        """As `BaseGenerator.generate`; vLLM has random numbers of its own. Raises ValueError for images."""
        _refuse(images, constraints)
        _, completions, logprobs, _ = self._vllm.generate(list(map(list, prompts)), None, 1)
        return [
            self._segment(prompt, ids, [float(values[0]) for values in of_reply])
            for prompt, ids, of_reply in zip(prompts, completions, logprobs, strict=True)
        ]


class GenerateRoute(BaseGenerator):
    """Samples with the `/generate/` route of `trl vllm-serve`, as TRL's guide to OpenEnv calls it."""

    def __init__(self, url: str, chat: Chat, *, max_new_tokens: int, temperature: float) -> None:
        super().__init__(chat, max_new_tokens=max_new_tokens, store=None, temperature=temperature)
        self._url = url.rstrip("/")

    def generate(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[random.Random],
        images: Sequence[Images] = (),
        constraints: Sequence[ReplyConstraint | None] = (),
    ) -> list[Segment]:
        """As `BaseGenerator.generate`; the server has random numbers of its own. Raises LLMError, and ValueError for
        images."""
        _refuse(images, constraints)
        body = {
            "prompts": [self.chat.tokenizer.decode(list(prompt)) for prompt in prompts],
            "n": 1,
            "temperature": self.temperature,
            "max_tokens": self.max_new_tokens,
        }
        url = f"{self._url}/generate/"
        found = run_async_safely(post_json(url, body, {}, timeout_s=_TIMEOUT_S))
        try:
            completions, logprobs = found["completion_ids"], found["logprobs"]
        except KeyError:
            raise unexpected(url, found, None) from None
        return [
            self._segment(prompt, ids, values)
            for prompt, ids, values in zip(prompts, completions, logprobs, strict=True)
        ]


def trainers_generator(trainer: Any) -> BaseGenerator:
    """The generator of TRL's trainer: its vLLM where it uses one, else its model.

    Raises ValueError for a model that is split over processes.
    """
    tokenizer, most = _tokenizer(trainer.processing_class), trainer.args.max_completion_length
    model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
    chat = Chat(tokenizer, end_ids=end_ids(_without_adapters(model)))
    if trainer.use_vllm:
        return TrainerVllm(trainer.vllm_generation, chat, max_new_tokens=most)
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        raise ValueError("a model that FSDP or DeepSpeed splits cannot sample here: set use_vllm=True")
    return TrainedModel(_without_adapters(model), chat, max_new_tokens=most, temperature=trainer.temperature)


def servers_generator(args: Any, processing_class: Any) -> BaseGenerator:
    """The generator of a vLLM server, from the arguments and the tokenizer that older versions of TRL give."""
    url = getattr(args, "vllm_server_base_url", None) or f"http://{args.vllm_server_host}:{args.vllm_server_port}"
    tokenizer = _tokenizer(processing_class)
    return GenerateRoute(
        url.replace("//0.0.0.0:", "//127.0.0.1:"),
        Chat(tokenizer, end_ids=[tokenizer.eos_token_id]),
        max_new_tokens=args.max_completion_length,
        temperature=args.temperature,
    )


def _tokenizer(processing_class: Any) -> Any:
    """The tokenizer of a processor, or the tokenizer that it is."""
    return getattr(processing_class, "tokenizer", processing_class)


def _without_adapters(model: Any) -> PreTrainedModel:
    """The transformers model inside a PEFT one: its adapters stay active in its layers."""
    found: PreTrainedModel = model.get_base_model() if hasattr(model, "get_base_model") else model
    return found


def _refuse(images: Sequence[Images], constraints: Sequence[ReplyConstraint | None]) -> None:
    """Raise ValueError for what these servers of TRL do not take."""
    if any(images):
        raise ValueError("prompts with images go to TRL's own model: leave use_vllm out")
    if any(constraints):
        raise ValueError("constrained replies come from TRL's own model: leave use_vllm out")
