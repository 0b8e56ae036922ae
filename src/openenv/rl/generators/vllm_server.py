"""Samples replies with a vLLM server, and gives it the trained weights after each step."""

import asyncio
import contextlib
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple, Self

import httpx
from torch import Tensor

from openenv.agents.llm.http import LLMError, post_json
from openenv.core.net.http_clients import async_http_client
from openenv.core.utils import run_async_safely
from openenv.policies.conversations import ReplyRequest
from openenv.rl.algorithm.segment import Segment
from openenv.rl.generators.base import BaseGenerator, prompt_of
from openenv.rl.generators.probe import GeneratorDisagrees
from openenv.rl.generators.reply_queue import Replies
from openenv.rl.generators.vllm_weights import Delivery
from openenv.rl.models.chat import Chat
from openenv.rl.models.images import Images
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.rl.models.reply_masks import JSON_FORM
from openenv.rl.models.weight_store import Probe, WeightStore
from openenv.text.constraints import ReplyConstraint

log = logging.getLogger(__name__)

_MAX_CONNECTIONS = 256  # vLLM batches requests that are open at the same time
_TIMEOUT_S = 600.0
_ROUTE = "inference/v1/generate"
"""Token ids in, token ids out. A server has it with `--enable-scale-out`."""
_LOWEST_BIAS = -100.0
"""The lowest that vLLM adds to a logit."""


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
        """As `BaseGenerator.generate`. Raises LLMError if the server does not complete a prompt."""
        seeds = [stream.getrandbits(31) for stream in streams]
        shown, limits = images or [()] * len(prompts), constraints or [None] * len(prompts)
        return run_async_safely(self._sampled(list(zip(prompts, seeds, shown, limits, strict=True))))

    @contextlib.asynccontextmanager
    async def replies(self, chat: Chat, executor: Executor) -> AsyncIterator[Replies]:
        """As `BaseGenerator.replies`: the server receives each prompt at once, and answers many together."""
        async with self._connected() as http:
            yield _ConcurrentReplies(self, chat, http)

    @property
    def place(self) -> tuple[str, str]:
        """The URL of the first server, and the name under which it has the weights."""
        return self._urls[0], self._delivery.model

    def reach(self, url: str, model: str) -> None:
        """Ask this server from now on. Another process has given it the weights, under this name."""
        self._urls = [url]
        self._delivery.model = model

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
        sampling = {"max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0, "detokenize": False}
        body = {"model": self._delivery.model, "token_ids": list(probe.token_ids), "sampling_params": sampling}
        answer = await _asked(f"{server}/{_ROUTE}", body)
        try:
            shown = answer["prompt_logprobs"][1:]
            return [float(row[str(token)]["logprob"]) for row, token in zip(shown, probe.token_ids[1:], strict=True)]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise LLMError(f"{server}/{_ROUTE} returned no log-probabilities of the prompt: {error!r}") from error

    def _connected(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=_MAX_CONNECTIONS * len(self._urls))
        return async_http_client(self._urls[0], timeout=None, limits=limits)

    async def _sampled(self, asked: Sequence[tuple[TokenIds, int, Images, ReplyConstraint | None]]) -> list[Segment]:
        """One reply to each prompt, through connections that they share."""
        await self.load_newest()
        async with self._connected() as http:
            tasks = [asyncio.ensure_future(self.sample(http, number, *one)) for number, one in enumerate(asked)]
            try:
                return list(await asyncio.gather(*tasks))
            finally:
                for task in tasks:
                    task.cancel()  # after a failure the others would use a client that is closed

    async def sample(
        self,
        http: httpx.AsyncClient,
        episode: int,
        prompt: TokenIds,
        seed: int,
        images: Images,
        constraint: ReplyConstraint | None,
    ) -> Segment:
        """One reply. All settings that a server may take from the model's generation config are given.

        episode: the server is chosen by it, so that one server has all turns of an episode in its cache.
        """
        version, masks_of = self.policy_version, self._reply_masks.masks_of
        url = f"{self._urls[episode % len(self._urls)]}/{_ROUTE}"
        sampling = {
            "max_tokens": self.max_new_tokens,
            "temperature": self.temperature,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "seed": seed,
            "stop_token_ids": sorted(self.chat.end_ids),
            "logprobs": 0,
            "detokenize": False,
            "structured_outputs": None if constraint is None else _structured_outputs(constraint),
            "logit_bias": {str(token): _LOWEST_BIAS for token in self.chat.image_ids},
        }
        asked = {
            "token_ids": list(self.chat.with_images_once(prompt, images)),
            "content_parts": [{"type": "image_url", "url": image.url} for image in images],
            "sampling_params": sampling,
            "return_token_ids": True,
        }
        with self._delivery.in_use() as model:
            answer = await _asked(url, {"model": model, **asked}, http)
        reply = _SampledReply.of(answer, url)
        if reply.end == "abort" or (reply.end == "length" and len(reply.token_ids) < self.max_new_tokens):
            raise LLMError(
                f"{url} ended a reply after {len(reply.token_ids)} of {self.max_new_tokens} tokens ({reply.end}). Give "
                "the server a --max-model-len of max_req_tokens + max_res_tokens."
            )
        if reply.prompt != prompt:
            raise LLMError(f"{url} reads {len(reply.prompt)} tokens where the trainer has {len(prompt)}: other images.")
        try:
            masks = [] if constraint is None else await asyncio.to_thread(masks_of, constraint, reply.token_ids)
        except ValueError as error:
            raise LLMError(f"{url} ignored structured_outputs: {error}.") from error
        segment = self._segment(prompt, reply.token_ids, reply.logprobs, images=images, masks=masks, version=version)
        for first, label in reply.versions if self._delivery.labels_versions else ():
            if label.isdecimal():  # that of the weights that a server begins with is a word
                segment.versions[len(prompt) + first :] = int(label)
        return segment


class _SampledReply(NamedTuple):
    """What a server has sampled."""

    prompt: TokenIds
    """As the server has read it."""
    token_ids: list[int]
    logprobs: list[float]
    versions: list[tuple[int, str]]
    """The first token and the label of the weights of each part."""
    end: str
    """Why it ended: stop, length or abort."""

    @classmethod
    def of(cls, answer: Any, url: str) -> Self:
        """Read an answer. Raises LLMError for another one."""
        try:
            (choice,) = answer["choices"]
            token_ids = [int(token) for token in choice["token_ids"]]
            found = choice["logprobs"]["content"]
            logprobs = [float(one["logprob"]) for one in found]
            versions = [(int(span["start"]), str(span["version"])) for span in choice.get("weight_versions") or []]
            is_whole = bool(token_ids) and [int(one["token_id"]) for one in found] == token_ids
            prompt = tuple(int(token) for token in answer["prompt_token_ids"])
        except (ValueError, KeyError, TypeError) as error:
            raise LLMError(f"{url} returned no tokens with log-probabilities: {error!r}") from error
        if not is_whole:
            raise LLMError(f"{url} returned {len(token_ids)} tokens and {len(found)} log-probabilities.")
        return cls(prompt, token_ids, logprobs, versions, str(choice.get("finish_reason")))


class _ConcurrentReplies:
    """Sends the server each prompt as soon as an episode has it."""

    def __init__(self, generator: VllmGenerator, chat: Chat, http: httpx.AsyncClient) -> None:
        self._generator = generator
        self._chat = chat
        self._http = http

    async def answer(self, request: ReplyRequest, stream: random.Random) -> Segment:
        """As `Replies.answer`."""
        prompt, images = prompt_of(request, self._chat), self._chat.images(request.messages)
        await self._generator.load_newest()
        return await self._generator.sample(
            self._http, request.episode, prompt, stream.getrandbits(31), images, request.constraint
        )


async def _asked(url: str, body: dict[str, Any], http: httpx.AsyncClient | None = None) -> dict[str, Any]:
    try:
        return await post_json(url, body, {}, timeout_s=_TIMEOUT_S, http=http)
    except LLMError as error:
        if error.status == 404 and "Not Found" in str(error):
            raise LLMError(f"{error} vLLM 0.32 serves this path with --enable-scale-out.", 404) from error
        raise


def _structured_outputs(constraint: ReplyConstraint) -> dict[str, Any]:
    """A constraint as vLLM takes it. Its backend guidance writes JSON as our masks expect it."""
    if constraint.choices:
        return {"choice": list(constraint.choices)}
    return {"json": {**json.loads(constraint.schema), "x-guidance": JSON_FORM}, "disable_any_whitespace": True}
