"""What coroutines ask a generator is answered in batches, and an error reaches all that have asked."""

import asyncio
import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from openenv.policies.conversations import ReplyRequest
from openenv.rl.algorithm.segment import Segment
from openenv.rl.generators.reply_queue import ReplyQueue


class Model:
    """Replies with the number of the episode, and keeps the batches. The first one waits for `goes_on`."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.goes_on = threading.Event()
        self.begun = threading.Event()

    def answer(self, requests: Sequence[ReplyRequest], streams: Sequence[random.Random]) -> list[Segment]:
        self.batches.append([request.episode for request in requests])
        self.begun.set()
        assert self.goes_on.wait(20)
        if 13 in self.batches[-1]:
            raise ValueError("no luck")
        return [Segment((request.episode,), (True,), (-1.0,), 0) for request in requests]


async def ask(queue: ReplyQueue, *episodes: int) -> list[tuple[int, ...]]:
    requests = [ReplyRequest(episode, []) for episode in episodes]
    segments = await asyncio.gather(*(queue.answer(request, random.Random(0)) for request in requests))
    return [tuple(segment.token_ids) for segment in segments]


async def test_what_is_asked_at_once_and_what_is_asked_meanwhile_are_batches() -> None:
    model = Model()
    with ThreadPoolExecutor(1) as executor:
        queue = ReplyQueue(model.answer, executor)
        first = asyncio.create_task(ask(queue, 1, 2, 3))
        await asyncio.to_thread(model.begun.wait, 20)
        others = [asyncio.create_task(ask(queue, episode)) for episode in (4, 5)]
        await asyncio.sleep(0.01)
        model.goes_on.set()

        assert await first == [(1,), (2,), (3,)]
        assert [await one for one in others] == [[(4,)], [(5,)]]
        assert await ask(queue, 6) == [(6,)]
    assert model.batches == [[1, 2, 3], [4, 5], [6]]


async def test_an_error_is_that_of_its_batch_alone() -> None:
    model = Model()
    model.goes_on.set()
    with ThreadPoolExecutor(1) as executor:
        queue = ReplyQueue(model.answer, executor)
        with pytest.raises(ValueError, match="no luck"):
            await ask(queue, 12, 13)

        assert await ask(queue, 14) == [(14,)]


async def test_an_episode_that_is_cancelled_leaves_the_others_their_replies() -> None:
    model = Model()
    with ThreadPoolExecutor(1) as executor:
        queue = ReplyQueue(model.answer, executor)
        tasks = [asyncio.create_task(ask(queue, episode)) for episode in (1, 2)]
        await asyncio.to_thread(model.begun.wait, 20)
        tasks[0].cancel()
        await asyncio.sleep(0)
        model.goes_on.set()

        assert await tasks[1] == [(2,)]
