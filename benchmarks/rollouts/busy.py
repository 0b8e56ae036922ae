"""Counts how long a generator works, and what it writes."""

import contextlib
import random
import time
from collections.abc import AsyncIterator
from concurrent.futures import Executor

from openenv.policies.conversations import ReplyRequest
from openenv.rl.algorithm.segment import Segment
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.reply_queue import Replies
from openenv.rl.models.chat import Chat


class Busy:
    """Counts the seconds in which a generator has something to do."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.tokens = 0
        """That it has sampled."""
        self._running = 0
        self._began = 0.0

    def __enter__(self) -> None:
        if self._running == 0:
            self._began = time.perf_counter()
        self._running += 1

    def __exit__(self, *_: object) -> None:
        self._running -= 1
        if self._running == 0:
            self.seconds += time.perf_counter() - self._began

    def watch(self, generator: BaseGenerator) -> None:
        """Count what a generator does from now on."""
        replies = generator.replies

        @contextlib.asynccontextmanager
        async def watched(chat: Chat, executor: Executor) -> AsyncIterator[Replies]:
            async with replies(chat, executor) as of_generator:
                yield WatchedReplies(of_generator, self)

        vars(generator)["replies"] = watched


class WatchedReplies:
    """Replies of which is known how long any of them takes."""

    def __init__(self, replies: Replies, busy: Busy) -> None:
        self._replies = replies
        self._busy = busy

    async def answer(self, request: ReplyRequest, stream: random.Random) -> Segment:
        """As `Replies.answer`."""
        with self._busy:
            segment = await self._replies.answer(request, stream)
        self._busy.tokens += len(segment.sampled_ids)
        return segment
