"""Samples replies with a vLLM server, and gives it the trained weights after each step."""

import asyncio
import contextlib
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import httpx
from torch import Tensor

from openenv.agents.llm.http import LLMError, post_json
from openenv.core.net.http_clients import async_http_client
from openenv.core.utils import run_async_safely
from openenv.policies.conversations import ReplyRequest
from openenv.rl.algorithm.segment import Segment
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.probe import GeneratorDisagrees
from openenv.rl.generators.reply_queue import Replies
from openenv.rl.generators.vllm_weights import Delivery
from openenv.rl.models.chat import Chat
from openenv.rl.models.images import Images
from openenv.rl.models.language_model import Probe, WeightStore
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.rl.models.reply_masks import JSON_FORM
from openenv.text.constraints import ReplyConstraint

log = logging.getLogger(__name__)

_MAX_CONNECTIONS = 256  # vLLM batches requests that are open at the same time
_TIMEOUT_S = 600.0


class VllmGenerator(BaseGenerator):
    """Samples replies through vLLM's HTTP API, with the weights that it delivers."""

    def __init__(
        self,
        urls: Sequence[str],
        chat: Chat,
        delivery: Delivery,
        *,
        max_new_tokens: int,
        vocab_size: int,
        store: WeightStore | None = None,
        temperature: float = 1.0,
    ) -> None:
        """
        Args:
            urls: of servers of the same model, without /v1, among which the episodes are divided.
            delivery: gives the servers the weights of the store.
            vocab_size: columns of the model's logits.
        """
        super().__init__(chat, max_new_tokens=max_new_tokens, store=store, temperature=temperature)
        self._urls = [url.rstrip("/") for url in urls]
        self._delivery = delivery
        self._reply_masks = chat.reply_masks(vocab_size)
        self._delivering: asyncio.Future[None] | None = None
        self._num_forgotten = 0

    def generate(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[random.Random],
        images: Sequence[Images] = (),
        constraints: Sequence[ReplyConstraint | None] = (),
    ) -> list[Segment]:
        """As `BaseGenerator.generate`. Raises LLMError if the server does not complete a prompt, and ValueError for
        images: its prompts are token ids."""
        _refuse_images(images)
        seeds = [stream.getrandbits(31) for stream in streams]
        return run_async_safely(self._sampled(prompts, seeds, constraints or [None] * len(prompts)))

    @contextlib.asynccontextmanager
    async def replies(self, chat: Chat, executor: Executor) -> AsyncIterator[Replies]:
        """As `BaseGenerator.replies`: the server receives each prompt at once, and answers many together."""
        async with self._connected() as http:
            yield _ConcurrentReplies(self, chat, http)

    def forget(self) -> None:
        """The server has begun anew: the next request delivers the weights again."""
        self.policy_version = -1
        self._num_forgotten += 1
        self._delivery.forget()

    def close(self) -> None:
        """Take off what was delivered."""
        run_async_safely(self._delivery.close())

    async def load_newest(self) -> None:
        """Give the servers the store's weights, if they are newer than those that they have.

        A delivery goes on also if all that wait for it are cancelled, so that no server is left with half of it.
        """
        while True:
            if self._delivering is None or self._delivering.done():
                newer = None if self.store is None else self.store.newer(self.policy_version)
                if newer is None:
                    return
                self._delivering = asyncio.ensure_future(self.deliver(*newer))
            await asyncio.shield(self._delivering)

    async def deliver(self, version: int, weights: Mapping[str, Tensor]) -> None:
        """Give the servers these weights. Raises LLMError, and GeneratorDisagrees if one has others afterwards.

        Where a server has begun anew meanwhile, it may have none of them: they count as not delivered.
        """
        began, known = time.monotonic(), self._num_forgotten
        await self._delivery.deliver(version, weights)
        try:
            await self._require_agreement(version)
        except GeneratorDisagrees:
            if known == self._num_forgotten:
                raise
        if known != self._num_forgotten:
            return
        self.policy_version = version
        log.info("vLLM has the weights of version %d: %.2f s", version, time.monotonic() - began)

    async def _require_agreement(self, version: int) -> None:
        """Raise GeneratorDisagrees unless all servers have the weights of a version."""
        assert self.store is not None
        known, probe = self.store.probed(version), self.store.probe
        if known is not None and probe is not None:
            for url in self._urls:
                probe.require_agreement(known, await self._measured(url, probe), version, url)

    async def _measured(self, server: str, probe: Probe) -> list[float]:
        """The log-probabilities of the tokens of a probe."""
        url = f"{server}/v1/completions"
        body = {"model": self._delivery.model, "prompt": list(probe.token_ids), "max_tokens": 1, "temperature": 1.0}
        answer = await post_json(url, {**body, "prompt_logprobs": 0}, {}, timeout_s=_TIMEOUT_S)
        try:
            shown = answer["choices"][0]["prompt_logprobs"][1:]
            return [float(row[str(token)]["logprob"]) for row, token in zip(shown, probe.token_ids[1:], strict=True)]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise LLMError(f"{url} returned no log-probabilities of the prompt: {error!r}") from error

    def _connected(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=_MAX_CONNECTIONS * len(self._urls))
        return async_http_client(self._urls[0], timeout=None, limits=limits)

    async def _sampled(
        self, prompts: Sequence[TokenIds], seeds: Sequence[int], constraints: Sequence[ReplyConstraint | None]
    ) -> list[Segment]:
        """One reply to each prompt, through connections that they share."""
        await self.load_newest()
        async with self._connected() as http:
            tasks = [
                asyncio.ensure_future(self.sample(http, number, *one))
                for number, one in enumerate(zip(prompts, seeds, constraints, strict=True))
            ]
            try:
                return list(await asyncio.gather(*tasks))
            finally:
                for task in tasks:
                    task.cancel()  # after a failure the others would use a client that is closed

    async def sample(
        self, http: httpx.AsyncClient, episode: int, prompt: TokenIds, seed: int, constraint: ReplyConstraint | None
    ) -> Segment:
        """One reply. All settings that a server may take from the model's generation config are given.

        episode: the server is chosen by it, so that one server has all turns of an episode in its cache.
        """
        limits = {} if constraint is None else {"structured_outputs": _structured_outputs(constraint)}
        version, masks_of = self.policy_version, self._reply_masks.masks_of
        url = f"{self._urls[episode % len(self._urls)]}/v1/completions"
        asked = {
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
        }
        with self._delivery.in_use() as model:
            answer = await post_json(url, {"model": model, **asked}, {}, timeout_s=_TIMEOUT_S, http=http)
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
            masks = [] if constraint is None else await asyncio.to_thread(masks_of, constraint, token_ids)
        except ValueError as error:
            raise LLMError(f"{url} ignored structured_outputs: {error}.") from error
        segment = self._segment(prompt, token_ids, logprobs, masks=masks, version=version)
        for first, label in answer.get("weight_versions") or []:
            if label.isdecimal():  # the label of the weights that a server begins with is a word
                segment.versions[len(prompt) + first :] = int(label)
        return segment


class _ConcurrentReplies:
    """Sends the server each prompt as soon as an episode has it."""

    def __init__(self, generator: VllmGenerator, chat: Chat, http: httpx.AsyncClient) -> None:
        self._generator = generator
        self._chat = chat
        self._http = http

    async def answer(self, request: ReplyRequest, stream: random.Random) -> Segment:
        """As `Replies.answer`."""
        _refuse_images([self._chat.images(request.messages)])
        prompt = self._chat.prompt(request.messages)
        await self._generator.load_newest()
        return await self._generator.sample(
            self._http, request.episode, prompt, stream.getrandbits(31), request.constraint
        )


def _refuse_images(images: Sequence[Images]) -> None:
    if any(images):
        raise ValueError("a vLLM server receives prompts without images. Leave generator out.")


def _structured_outputs(constraint: ReplyConstraint) -> dict[str, Any]:
    """A constraint as vLLM takes it. Its backend guidance writes JSON as our masks expect it."""
    if constraint.choices:
        return {"choice": list(constraint.choices)}
    return {"json": {**json.loads(constraint.schema), "x-guidance": JSON_FORM}, "disable_any_whitespace": True}
