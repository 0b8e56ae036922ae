"""Lets the coroutines of episodes ask a generator that answers in batches."""

import asyncio
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import NamedTuple, Protocol

from openenv.policies.conversations import ReplyRequest
from openenv.rl.algorithm.segment import Segment


class Replies(Protocol):
    """The replies of a generator to the coroutines of episodes."""

    async def answer(self, request: ReplyRequest, stream: random.Random) -> Segment:
        """The reply as a segment of prompt and sampled tokens. stream: the random numbers of the episode."""
        ...


class _Question(NamedTuple):
    request: ReplyRequest
    stream: random.Random
    answer: asyncio.Future[Segment]


class ReplyQueue:
    """What is asked before the event loop runs again is one batch, and so is what is asked while the generator answers.

    Belongs to one event loop.
    """

    def __init__(
        self, answer: Callable[[Sequence[ReplyRequest], Sequence[random.Random]], list[Segment]], executor: Executor
    ) -> None:
        """
        Args:
            answer: replies to a batch, each with its random numbers.
            executor: runs it, one call at a time, so that the event loop stays free.
        """
        self._answer = answer
        self._executor = executor
        self._waiting: list[_Question] = []
        self._answering: asyncio.Task[None] | None = None

    async def answer(self, request: ReplyRequest, stream: random.Random) -> Segment:
        """As `Replies.answer`."""
        answer: asyncio.Future[Segment] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Question(request, stream, answer))
        if self._answering is None:
            self._answering = asyncio.create_task(self._answer_all())
        return await answer

    async def _answer_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            requests, streams = [one.request for one in batch], [one.stream for one in batch]
            try:
                segments = await loop.run_in_executor(self._executor, self._answer, requests, streams)
                answered = list(zip(batch, segments, strict=True))
            except Exception as error:  # noqa: BLE001  border: all that have asked get the error, of any kind
                for one in batch:
                    if not one.answer.done():
                        one.answer.set_exception(error)
                continue
            for one, segment in answered:
                if not one.answer.done():  # otherwise its episode was cancelled
                    one.answer.set_result(segment)
        self._answering = None
