"""A stand-in for a vLLM server."""

import contextlib
import random
import threading
from pathlib import Path
from typing import Any

import torch
from fastapi import FastAPI, HTTPException
from transformers import PreTrainedModel

from openenv.rl.config import LoraSettings
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat
from openenv.rl.models.lora import adapter_disabled, add_adapter, load_adapter
from openenv.text.constraints import ReplyConstraint


class StandIn:
    """The part of vLLM's HTTP API that the generator uses, with the generator of this process behind it."""

    def __init__(self, name: str, model: PreTrainedModel, chat: Chat, lora: LoraSettings) -> None:
        """name: under which the server has the model."""
        add_adapter(model, lora, name)
        self.name = name
        self.model = model
        self.chat = chat
        self.adapters: dict[str, str] = {}
        self.max_loaded = 0
        self.num_loaded = 0
        self.num_replies = 0
        self._lock = threading.Lock()
        self.ignores_limits = False
        """Whether it draws replies as if none was limited."""
        self.max_length: int | None = None
        """Tokens after which it ends a reply of its own accord."""
        self.app = FastAPI()
        self.app.post("/v1/load_lora_adapter")(self.load)
        self.app.post("/v1/unload_lora_adapter")(self.unload)
        self.app.post("/inference/v1/generate")(self.complete)

    def load(self, body: dict[str, Any]) -> str:
        if body["lora_name"] in self.adapters:
            raise HTTPException(400, "already loaded")
        self.adapters[body["lora_name"]] = body["lora_path"]
        self.num_loaded += 1
        self.max_loaded = max(self.max_loaded, len(self.adapters))
        return "Success"

    def unload(self, body: dict[str, Any]) -> str:
        del self.adapters[body["lora_name"]]
        return "Success"

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["model"] not in (self.name, *self.adapters):
            raise HTTPException(404, f"the model {body['model']} does not exist")
        if "prompt_logprobs" in body["sampling_params"]:
            return self.measure(body)
        asked, prompt = body["sampling_params"], tuple(body["token_ids"])
        assert body["return_token_ids"]
        assert set(asked["stop_token_ids"]) == self.chat.end_ids
        limits = asked["structured_outputs"]
        constraints = [ReplyConstraint(choices=tuple(limits["choice"]))] if limits and not self.ignores_limits else ()
        generator = Generator(
            self.model, self.chat, max_new_tokens=asked["max_tokens"], temperature=asked["temperature"]
        )
        generator._reply_masks._think_id = None  # vLLM limits a reply from its first token
        with self._lock, contextlib.ExitStack() as stack:
            self.num_replies += 1
            if body["model"] == self.name:
                stack.enter_context(adapter_disabled(self.model))
            else:
                load_adapter(self.model, Path(self.adapters[body["model"]]))
            (segment,) = generator.generate([prompt], [random.Random(asked["seed"])], (), constraints)
        tokens = segment.token_ids[len(prompt) :].tolist()[: self.max_length]
        logprobs = segment.logprobs[len(prompt) :].tolist()[: self.max_length]
        content = [{"token_id": one, "logprob": other} for one, other in zip(tokens, logprobs, strict=True)]
        end = "stop" if tokens[-1] in self.chat.end_ids else "length"
        label = [{"version": "77", "start": 0, "end": len(tokens)}]  # of another tool: adapters have no label
        choice = {
            "token_ids": tokens, "logprobs": {"content": content}, "weight_versions": label, "finish_reason": end
        }  # fmt: skip
        return {"choices": [choice], "prompt_token_ids": prompt}

    def measure(self, body: dict[str, Any]) -> dict[str, Any]:
        """The log-probability of each token of a prompt, but the first."""
        prompt = body["token_ids"]
        ids = torch.tensor([prompt])
        with self._lock, torch.no_grad():
            load_adapter(self.model, Path(self.adapters[body["model"]]))
            table = torch.log_softmax(self.model(ids).logits[0], dim=-1)
        values = table[:-1].gather(1, ids[0, 1:, None])[:, 0].tolist()
        rows = [{str(token): {"logprob": value}} for token, value in zip(prompt[1:], values, strict=True)]
        return {"prompt_logprobs": [None, *rows]}
