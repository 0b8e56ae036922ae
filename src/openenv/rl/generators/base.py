"""The interface of a generator: prompts in, sampled replies with their log-probabilities out."""

import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from openenv.policies.conversations import ReplyRequest
from openenv.policies.prompts import ChatMessage, SampledReply
from openenv.rl.algorithm.segment import Segment
from openenv.rl.generators.reply_queue import Replies, ReplyQueue
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.text.constraints import ReplyConstraint

if TYPE_CHECKING:
    from openenv.rl.models.chat import Chat
    from openenv.rl.models.images import Images
    from openenv.rl.models.reply_masks import Mask
    from openenv.rl.models.weight_store import WeightStore

_MOST_KNOWN_TOKENS = 1 << 22  # of prompts and replies that are kept: some hundred megabytes

_Question = tuple[TokenIds, tuple[bytes, ...], ReplyConstraint | None]
"""What a reply at temperature 0 depends on: its prompt, the keys of its images, and what it may be."""


@dataclass(frozen=True, slots=True)
class _KnownReply:
    """A reply at temperature 0, without its prompt."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    masks: "tuple[Mask | None, ...]"

    @classmethod
    def of(cls, segment: Segment) -> Self:
        """The reply of a prompt's segment."""
        is_sampled = segment.sampled
        logprobs = segment.logprobs[is_sampled].tolist()
        return cls(tuple(segment.sampled_ids), tuple(logprobs), tuple(segment.masks[len(segment) - len(logprobs) :]))


class BaseGenerator(ABC):
    """Samples replies with the latest weights of a store.

    Not thread-safe: call it from one thread at a time. Newer weights are loaded from the store between calls. At
    temperature 0 the weights change in no other way: replies are kept until then.
    """

    def __init__(self, chat: "Chat", *, max_new_tokens: int, store: "WeightStore | None", temperature: float) -> None:
        self.chat = chat
        self.max_new_tokens = max_new_tokens
        self.store = store
        self.temperature = temperature
        """1 samples from the model, which training requires; 0 takes the most likely token."""
        self.policy_version = -1
        self._own_stream = random.Random(0)
        self._known: dict[_Question, _KnownReply] = {}
        """Replies of these weights at temperature 0."""
        self._known_tokens = 0

    @abstractmethod
    def generate(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[random.Random],
        images: "Sequence[Images]" = (),
        constraints: Sequence[ReplyConstraint | None] = (),
    ) -> list[Segment]:
        """One reply for each prompt, as a segment of prompt and sampled tokens.

        Log-probabilities are those of temperature 1, among the tokens that the constraint allows.

        Args:
            images: of each prompt; empty if no prompt has any.
            constraints: what each reply may be; empty if no reply has one. The segment then has the masks of its
                tokens.
            streams: the random numbers of each row, so that a reply does not depend on what else is in the batch.
        """

    @contextlib.asynccontextmanager
    async def replies(self, chat: "Chat", executor: Executor) -> AsyncIterator[Replies]:
        """The replies to the coroutines of an event loop, inside the `async with` statement.

        executor: runs this generator.
        """

        def answer(requests: Sequence[ReplyRequest], streams: Sequence[random.Random]) -> list[Segment]:
            prompts = [prompt_of(request, chat) for request in requests]
            images = [chat.images(request.messages) for request in requests]
            return self._answer(prompts, streams, images, [request.constraint for request in requests])

        yield ReplyQueue(answer, executor)

    def complete(
        self,
        conversations: Sequence[Sequence[ChatMessage]],
        constraints: Sequence[ReplyConstraint | None] = (),
        *,
        chat: "Chat | None" = None,
    ) -> list[SampledReply]:
        """The model's reply to each conversation: the `complete` of a `LanguageModelPolicy`.

        chat: of the environment, whose tools it shows; None for the generator's.
        """
        streams = [random.Random(self._own_stream.getrandbits(64)) for _ in conversations]
        segments = self.answer(conversations, streams, chat or self.chat, constraints)
        return [self.reply(segment) for segment in segments]

    def answer(
        self,
        conversations: Sequence[Sequence[ChatMessage]],
        streams: Sequence[random.Random],
        chat: "Chat",
        constraints: Sequence[ReplyConstraint | None] = (),
    ) -> list[Segment]:
        """`generate` for messages, which a chat makes prompts.

        At temperature 0 equal prompts have equal replies, so each is generated once for the same weights.
        """
        prompts = [chat.prompt(messages) for messages in conversations]
        images = [chat.images(messages) for messages in conversations]
        return self._answer(prompts, streams, images, constraints)

    def _answer(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[random.Random],
        images: "Sequence[Images]",
        constraints: Sequence[ReplyConstraint | None],
    ) -> list[Segment]:
        if self.temperature == 0:
            return self._answer_once(prompts, streams, images, constraints)
        return self.generate(prompts, streams, images, constraints)

    def _answer_once(
        self,
        prompts: Sequence[TokenIds],
        streams: Sequence[random.Random],
        images: "Sequence[Images]",
        constraints: Sequence[ReplyConstraint | None],
    ) -> list[Segment]:
        """The most likely reply to each prompt. What is known for the current weights is not generated again."""
        if self.store is not None and self.store.newer(self.policy_version) is not None:
            self._forget()
        limits = constraints or [None] * len(prompts)
        questions: list[_Question] = [
            (prompt, tuple(image.key for image in shown), limit)
            for prompt, shown, limit in zip(prompts, images, limits, strict=True)
        ]
        unknown: dict[_Question, int] = {}
        for row, question in enumerate(questions):
            if question not in self._known:
                unknown.setdefault(question, row)
        rows = list(unknown.values())
        new: dict[_Question, _KnownReply] = {}
        if rows:
            segments = self.generate(
                [prompts[row] for row in rows],
                [streams[row] for row in rows],
                [images[row] for row in rows],
                [limits[row] for row in rows] if constraints else (),
            )
            new = {question: _KnownReply.of(segment) for question, segment in zip(unknown, segments, strict=True)}
            self._remember(new)
        replies = [new.get(question) or self._known[question] for question in questions]
        return [
            self._segment(prompt, reply.token_ids, reply.logprobs, shown, reply.masks)
            for prompt, shown, reply in zip(prompts, images, replies, strict=True)
        ]

    def _remember(self, replies: Mapping[_Question, _KnownReply]) -> None:
        """Keep the replies while there is room: prompts that recur, such as first observations, come early."""
        for question, reply in replies.items():
            size = len(question[0]) + len(reply.token_ids)
            if self._known_tokens + size <= _MOST_KNOWN_TOKENS:
                self._known[question] = reply
                self._known_tokens += size

    def _forget(self) -> None:
        self._known.clear()
        self._known_tokens = 0

    def reply(self, segment: Segment) -> SampledReply:
        """The sampled tokens of a segment, as text and as ids. Without a token that ends it, the reply is cut off."""
        ids = segment.sampled_ids
        is_cut_off = bool(ids) and ids[-1] not in self.chat.end_ids
        is_thought = self.chat.template.opens_thinking
        return SampledReply(self.chat.text(ids), ids, is_cut_off=is_cut_off, is_thought=is_thought)

    def seed(self, seed: int) -> None:
        """Seed the random numbers of `complete`."""
        self._own_stream = random.Random(seed)

    def _segment(
        self,
        prompt: TokenIds,
        token_ids: Sequence[int],
        logprobs: Sequence[float],
        images: "Images" = (),
        masks: "Sequence[Mask | None]" = (),
        version: int | None = None,
    ) -> Segment:
        """The segment of a prompt and the tokens sampled after it. version: that sampled them; None: the newest."""
        shown, length = len(prompt), len(prompt) + len(token_ids)
        return Segment(
            token_ids=(*prompt, *token_ids),
            sampled=np.arange(length) >= shown,
            logprobs=np.concatenate([np.zeros(shown), logprobs]),
            versions=self.policy_version if version is None else version,
            images=images,
            masks=(None,) * shown + tuple(masks) if any(masks) else (),
        )


def prompt_of(request: ReplyRequest, chat: "Chat") -> TokenIds:
    """The tokens of a request's prompt."""
    return chat.prompt(request.messages) if request.token_ids is None else request.token_ids
