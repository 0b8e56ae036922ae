"""An engine with vLLM's routes for chats and for prompts of tokens, on a model of this process.

It returns the tokens and log-probabilities of its replies, as vLLM does with `return_token_ids`.
"""

import random
import threading
from collections.abc import Iterator
from typing import Any

import torch
from fastapi import FastAPI
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from openenv.integrations.trl.generators import TrainedModel
from openenv.rl.models.chat import Chat


class TokenEngine:
    """The engine, whose weights a trainer of this process sets. As TRL's WeightTransferProtocol."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        """name: of the model, in requests."""
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.bodies: list[dict[str, Any]] = []
        self.num_updates = 0
        self.app = FastAPI()
        self.app.post("/v1/chat/completions")(self.chat)
        self.app.post("/v1/completions")(self.complete)
        self._chat = Chat(tokenizer, end_ids=[tokenizer.eos_token_id])
        self._numbers = random.Random(0)
        self._lock = threading.Lock()

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """A reply to messages, which this engine's own tokenizer encodes."""
        prompt = self.tokenizer.apply_chat_template(
            body["messages"], tools=body.get("tools"), add_generation_prompt=True, return_dict=False
        )
        ids, logprobs = self._sample(prompt, body)
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        tokens = zip(ids, logprobs, strict=True)
        content = [{"token": f"token_id:{one}", "logprob": value, "top_logprobs": []} for one, value in tokens]
        choice = {
            "index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": self._end(ids),
            "token_ids": ids, "logprobs": {"content": content},
        }  # fmt: skip
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids), "total_tokens": len(prompt) + len(ids)}
        return {"id": "0", "model": self.name, "choices": [choice], "prompt_token_ids": prompt, "usage": usage}

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """A reply to tokens."""
        ids, logprobs = self._sample(body["prompt"], body)
        choice = {"token_ids": ids, "logprobs": {"token_logprobs": logprobs}, "finish_reason": self._end(ids)}
        return {"choices": [choice]}

    def _sample(self, prompt: list[int], body: dict[str, Any]) -> tuple[list[int], list[float]]:
        assert body["return_token_ids"]
        assert body["model"] == self.name
        assert body.get("top_p", 1.0) == 1.0
        with self._lock:
            self.bodies.append(body)
            generator = TrainedModel(
                self.model, self._chat, max_new_tokens=body["max_tokens"], temperature=body["temperature"]
            )
            (segment,) = generator.generate([tuple(prompt)], [random.Random(self._numbers.random())])
        return segment.token_ids[len(prompt) :].tolist(), segment.logprobs[len(prompt) :].tolist()

    def _end(self, ids: list[int]) -> str:
        return "stop" if ids[-1] == self.tokenizer.eos_token_id else "length"

    def init_weight_transfer(self) -> None:
        """Nothing has to be opened."""

    def pause(self) -> None:
        """Let replies that are being drawn end with the weights that they have begun with."""
        self._lock.acquire()

    def send_weights(self, iterator: Iterator[tuple[str, torch.Tensor]]) -> None:
        """Take the trainer's weights."""
        self.model.load_state_dict({name: value.detach() for name, value in iterator}, strict=False)
        self.num_updates += 1

    def resume(self) -> None:
        """Draw replies again."""
        self._lock.release()

    def destroy(self) -> None:
        """Nothing is left to be closed."""
