"""How many requests are under way at one time, and for how long each."""

import asyncio

import pytest

from openenv.core.deadlines import Deadlines
from openenv.core.errors import AnswerTimeout
from openenv.core.window import Window


async def until_idle():
    """Every task has come to where it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_place_goes_to_who_waits_longest():
    window = Window(1)
    assert window.enter()
    order = []

    async def come(name):
        await window.wait()
        order.append(name)

    tasks = [asyncio.create_task(come(name)) for name in "ab"]
    await until_idle()
    assert not window.enter()
    window.leave()
    await until_idle()
    assert order == ["a"]
    window.leave()
    await asyncio.gather(*tasks)

    assert order == ["a", "b"]


async def test_a_place_is_not_lost_with_who_waited_for_it():
    window = Window(1)
    window.enter()
    first, second = asyncio.create_task(window.wait()), asyncio.create_task(window.wait())
    await until_idle()

    first.cancel()
    await until_idle()
    window.leave()
    second.cancel()  # in the moment in which it gets the place
    await until_idle()

    assert first.cancelled()
    assert second.cancelled()
    assert window.enter()


async def test_each_late_future_is_told_and_no_other():
    deadlines = Deadlines()
    loop = asyncio.get_running_loop()
    slow, late, in_time = (loop.create_future() for _ in range(3))

    for future, timeout_s in ((slow, 60.0), (late, 0.01), (in_time, 0.02)):
        deadlines.add(future, timeout_s)
    in_time.set_result("an answer")
    with pytest.raises(AnswerTimeout):
        await late
    deadlines.discard(late)
    later = loop.create_future()
    deadlines.add(later, 0.01)
    with pytest.raises(AnswerTimeout):
        await later

    assert in_time.result() == "an answer"
    assert not slow.done()
    deadlines.close()
