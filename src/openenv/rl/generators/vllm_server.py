"""Samples replies with a vLLM server, and gives it the trained adapter after each step."""

import asyncio
import json
import logging
import random
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from openenv.agents.llm.http import LLMError, post_json
from openenv.core.net.http_clients import async_http_client
from openenv.core.utils import run_async_safely
from openenv.rl.algorithm.trajectory import Segment
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.models.chat import Chat
from openenv.rl.models.images import Images
from openenv.rl.models.language_model import WeightStore
from openenv.rl.models.lora import save_adapter
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.text.constraints import ReplyConstraint

log = logging.getLogger(__name__)

_MAX_CONNECTIONS = 64  # vLLM batches requests that are open at the same time
_TIMEOUT_S = 600.0


class VllmGenerator(BaseGenerator):
    """Samples replies through vLLM's HTTP API, with the model that the server was started with and our adapter.

    Start the server with `VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve MODEL --enable-lora --max-lora-rank RANK`.
    It reads adapters from `folder`, so it runs on this machine or shares that folder.
    """

    def __init__(
        self,
        url: str,
        base_model: str,
        chat: Chat,
        *,
        max_new_tokens: int,
        folder: Path,
        adapter_config: Any,
        vocab_size: int,
        store: WeightStore | None = None,
        temperature: float = 1.0,
    ) -> None:
        """
        Args:
            url: without /v1.
            base_model: the name under which the server has the model.
            adapter_config: peft's.
            vocab_size: columns of the model's logits.
        """
        super().__init__(chat, max_new_tokens=max_new_tokens, store=store, temperature=temperature)
        self._url = url.rstrip("/")
        self._reply_masks = chat.reply_masks(vocab_size)
        self._folder = folder
        self._adapter_config = adapter_config
        self._prefix = f"policy-{secrets.token_hex(4)}"  # generators of one server do not share adapters
        self._adapter: str | None = None
        self._base_model = base_model

    def generate(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[random.Random],
        images: Sequence[Images] = (),
        constraints: Sequence[ReplyConstraint | None] = (),
    ) -> list[Segment]:
        """As `BaseGenerator.generate`. Raises LLMError if the server does not complete a prompt, and ValueError for
        images: its prompts are token ids."""
        if any(images):
            raise ValueError("a vLLM server receives prompts without images. Leave model.vllm_url out.")
        if self.store is not None:
            self._load_newer(self.store)
        seeds = [stream.getrandbits(31) for stream in streams]
        return run_async_safely(self._sampled(prompts, seeds, constraints or [None] * len(prompts)))

    def close(self) -> None:
        """Unload the adapter, and remove its files."""
        try:
            self._unload(self._adapter)
        except LLMError as error:
            log.warning("the adapter stays on the server: %s", error)

    def _load_newer(self, store: WeightStore) -> None:
        """Give the server the store's adapter, if it is newer than the one that it has."""
        newer = store.newer(self.policy_version)
        if newer is None:
            return
        version, weights = newer
        name, before = f"{self._prefix}-{version}", self._adapter
        save_adapter(self._folder / name, weights, self._adapter_config)
        self._command("load_lora_adapter", {"lora_name": name, "lora_path": str((self._folder / name).resolve())})
        self._adapter, self.policy_version = name, version
        self._unload(before)

    def _unload(self, adapter: str | None) -> None:
        if adapter is not None:
            self._command("unload_lora_adapter", {"lora_name": adapter})
            shutil.rmtree(self._folder / adapter)

    def _command(self, name: str, body: dict[str, Any]) -> None:
        """Send a request that the server answers in words."""
        run_async_safely(post_json(f"{self._url}/v1/{name}", body, {}, timeout_s=_TIMEOUT_S, takes_text=True))

    async def _sampled(
        self, prompts: Sequence[TokenIds], seeds: Sequence[int], constraints: Sequence[ReplyConstraint | None]
    ) -> list[Segment]:
        """One reply to each prompt, through connections that they share."""
        free, limits = asyncio.Semaphore(_MAX_CONNECTIONS), httpx.Limits(max_connections=_MAX_CONNECTIONS)
        async with async_http_client(self._url, timeout=None, limits=limits) as http:

            async def reply(prompt: TokenIds, seed: int, constraint: ReplyConstraint | None) -> Segment:
                async with free:
                    return await self._sample(http, prompt, seed, constraint)

            tasks = [asyncio.ensure_future(one) for one in map(reply, prompts, seeds, constraints)]
            try:
                return list(await asyncio.gather(*tasks))
            finally:
                for task in tasks:
                    task.cancel()  # after a failure the others would use a client that is closed

    async def _sample(
        self, http: httpx.AsyncClient, prompt: TokenIds, seed: int, constraint: ReplyConstraint | None
    ) -> Segment:
        """One reply. All settings that a server may take from the model's generation config are given."""
        limits = {} if constraint is None else {"structured_outputs": _structured_outputs(constraint)}
        url = f"{self._url}/v1/completions"
        answer = await post_json(
            url,
            {
                "model": self._adapter or self._base_model,
                "prompt": list(prompt),
                "max_tokens": self.max_new_tokens,
                "temperature": self.temperature,
                "top_p": 1.0,
                "top_k": -1,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "seed": seed,
                "stop_token_ids": sorted(self.chat.end_ids),
                "logprobs": 1,
                "return_token_ids": True,
                **limits,
            },
            {},
            timeout_s=_TIMEOUT_S,
            http=http,
        )
        try:
            choice = answer["choices"][0]
            token_ids = [int(token) for token in choice["token_ids"]]
            logprobs = [float(logprob) for logprob in choice["logprobs"]["token_logprobs"]]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise LLMError(f"{url} returned no tokens with log-probabilities: {error!r}") from error
        if not token_ids or len(token_ids) != len(logprobs):
            counts = f"{len(token_ids)} tokens and {len(logprobs)} log-probabilities"
            raise LLMError(f"{url} returned {counts}.")
        try:
            masks = [] if constraint is None else self._reply_masks.masks_of(constraint, token_ids)
        except ValueError as error:
            raise LLMError(f"{url} ignored structured_outputs: {error}.") from error
        return self._segment(prompt, token_ids, logprobs, masks=masks)


def _structured_outputs(constraint: ReplyConstraint) -> dict[str, Any]:
    """A constraint as vLLM takes it."""
    if constraint.choices:
        return {"choice": list(constraint.choices)}
    return {"json": json.loads(constraint.schema), "disable_any_whitespace": True}
