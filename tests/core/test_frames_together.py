"""Frames of several connections are read together and answered in the order in which they came."""

import asyncio

from openenv.core.env_server.frames_together import FramesTogether


class Listener:
    def __init__(self, name, heard, *, fails=False):
        self.name, self.heard, self.fails = name, heard, fails
        self.is_open = True

    def hear(self, frame):
        self.heard.append((self.name, frame))
        if self.fails:
            raise RuntimeError("unforeseen")

    def abort(self):
        self.is_open = False


async def test_a_connection_that_is_alone_is_answered_at_once():
    together, heard = FramesTogether(), []
    alone = Listener("a", heard)
    together.add(alone, b"1")
    await asyncio.sleep(0)

    together.add(alone, b"2")

    assert heard == [("a", b"1"), ("a", b"2")]


async def test_frames_of_several_connections_are_answered_in_their_order():
    together, heard = FramesTogether(), []
    a, b = Listener("a", heard), Listener("b", heard)

    for listener, frame in ((a, b"1"), (b, b"2"), (b, b"3"), (a, b"4")):
        together.add(listener, frame)
    assert heard == []
    await asyncio.sleep(0)

    assert heard == [("a", b"1"), ("b", b"2"), ("b", b"3"), ("a", b"4")]


async def test_what_a_connection_has_said_is_answered_before_it_ends():
    together, heard = FramesTogether(), []
    a = Listener("a", heard)
    together.add(a, b"1")

    together.leave(a)

    assert heard == [("a", b"1")]


async def test_a_connection_that_fails_unforeseen_ends_alone():
    together, heard = FramesTogether(), []
    a, b = Listener("a", heard, fails=True), Listener("b", heard)

    together.add(a, b"1")
    together.add(b, b"2")
    await asyncio.sleep(0)

    assert heard == [("a", b"1"), ("b", b"2")]
    assert (a.is_open, b.is_open) == (False, True)


async def test_who_speaks_while_many_are_answered_waits_for_those_before_it_alone():
    together, heard = FramesTogether(), []
    crowd = [Listener(name, heard) for name in range(20)]
    for listener in crowd:
        together.add(listener, b"before")
    await asyncio.sleep(0)
    assert 0 < len(heard) < len(crowd), "some are answered, then the loop looks who has spoken"
    together.add(crowd[0], b"after")
    for _ in range(len(crowd)):
        await asyncio.sleep(0)
    assert heard == [(name, b"before") for name in range(20)] + [(0, b"after")]
