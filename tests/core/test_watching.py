"""Who has said something looks for what comes next a moment long before it sleeps, and not where that was in vain."""

import asyncio
import socket

import pytest

from openenv.core import watching
from openenv.core.watching import MOST_LATE, MOST_LEFT_OUT, SOON_S, WATCH_S, Looks, LoopWatch, SocketWatch


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_what_has_come_is_seen(pair):
    ours, theirs = pair
    watch = SocketWatch(ours)
    for _ in range(3):
        theirs.sendall(b"answer")
        assert watch.seen(16) == b"answer"


def _left_out(looks: Looks) -> int:
    """How many looks are left out before the next one."""
    return next(number for number in range(MOST_LEFT_OUT + 1) if looks.next_is_due())


def test_after_looks_in_vain_ever_more_are_left_out_until_one_is_not():
    looks = Looks()
    drawn = [set[int]() for _ in range(4)]
    for _ in range(200):
        for numbers in drawn:
            looks.in_vain()
            numbers.add(_left_out(looks))
        looks.seen(SOON_S)
        assert _left_out(looks) == 0
    assert drawn == [{1}, {2, 3}, {4, 5, 6, 7}, set(range(8, 16))]


def test_a_look_at_a_socket_in_vain_is_one(pair):
    ours, theirs = pair
    watch = SocketWatch(ours)
    assert watch.seen(16) == b""
    theirs.sendall(b"answer")
    assert [watch.seen(16), watch.seen(16)] == [b"", b"answer"]
    assert watch.seen(16) == b""
    theirs.sendall(b"answer")
    assert [watch.seen(16), watch.seen(16)] == [b"", b"answer"], "what was found makes up for what was not"


def test_the_looks_that_are_left_out_have_an_end(pair):
    ours, theirs = pair
    watch = SocketWatch(ours)
    for _ in range(3 * MOST_LEFT_OUT):
        watch.seen(16)
    theirs.sendall(b"answer")
    assert b"answer" in [watch.seen(16) for _ in range(MOST_LEFT_OUT + 1)]


def test_what_comes_late_more_often_than_soon_is_not_watched_for_long():
    looks, late_s = Looks(), 1.5 * SOON_S
    for most in (1, 3, 7):
        for _ in range(MOST_LATE):
            looks.seen(late_s)
            assert _left_out(looks) == 0
        looks.seen(late_s)
        assert (most + 1) // 2 <= _left_out(looks) <= most


def test_what_comes_soon_makes_up_for_what_came_late_one_for_one():
    looks, late_s = Looks(), 1.5 * SOON_S
    looks.in_vain()
    assert _left_out(looks) == 1
    for after_s in [late_s, SOON_S] * 2 * MOST_LATE:
        looks.seen(after_s)
        assert _left_out(looks) == 0
    looks.seen(late_s)
    looks.seen(SOON_S)
    looks.in_vain()
    assert _left_out(looks) > 1, "the look in vain is not forgotten before all that was late is"
    looks.seen(SOON_S)
    looks.in_vain()
    assert _left_out(looks) == 1


class _Scripted:
    """A socket to which an answer comes at a time of a clock that moves on with each look at it."""

    def __init__(self, at_s: float) -> None:
        self.now, self._at_s = 0.0, at_s

    def clock(self) -> float:
        self.now += WATCH_S / 50
        return self.now

    def recv(self, most_bytes: int, flags: int) -> bytes:
        if self.now < self._at_s:
            raise BlockingIOError
        return b"answer"


@pytest.mark.parametrize(("at_s", "is_watched_on"), [(0.5 * SOON_S, True), (1.5 * SOON_S, False)])
def test_a_look_at_a_socket_tells_how_long_it_took(monkeypatch, at_s: float, is_watched_on: bool):
    script = _Scripted(at_s)
    monkeypatch.setattr(watching.time, "perf_counter", script.clock)
    watch = SocketWatch(script)
    for _ in range(MOST_LATE + 1):
        script.now = 0.0
        assert watch.seen(16) == b"answer"
    script.now = 0.0
    assert watch.seen(16) == (b"answer" if is_watched_on else b"")


@pytest.fixture
def loop(monkeypatch):
    """An event loop that keeps how long each of its turns would wait for its sockets. Its clock moves on when it would
    wait, and a little when a watch looks at it: a look takes fifty turns."""
    loop = asyncio.SelectorEventLoop()
    loop.waits, now = [], 1.0

    def look_at_the_clock():
        nonlocal now
        now += WATCH_S / 50
        return now

    def wait(timeout=None):
        nonlocal now
        loop.waits.append(timeout)
        now += timeout or 0
        return []

    monkeypatch.setattr(watching.time, "perf_counter", look_at_the_clock)
    monkeypatch.setattr(loop, "time", lambda: now)
    monkeypatch.setattr(loop._selector, "select", wait)
    yield loop
    monkeypatch.undo()
    loop.close()


def run(loop, watch, *, others=()):
    """Let a loop look once, among other things that it has to do, and then sleep a little."""

    async def look():
        watch.expect(loop)
        for other in others:
            loop.call_soon(other)
        await asyncio.sleep(20 * WATCH_S)

    loop.waits.clear()
    loop.run_until_complete(look())
    return loop.waits.count(0)


def test_a_loop_that_expects_something_asks_its_sockets_again_and_again_before_it_sleeps(loop):
    watch = LoopWatch.of(loop)
    assert LoopWatch.of(loop) is watch
    assert run(loop, watch) >= 50
    assert any(wait > 0 for wait in loop.waits), "and then it sleeps"


def test_what_has_come_ends_the_look_and_the_next_one_is_as_due_as_the_first(loop):
    watch = LoopWatch.of(loop)
    for _ in range(3):
        assert run(loop, watch, others=[watch.heard]) < 10, "heard in the loop's next turn"
    assert run(loop, watch) >= 50


def test_a_loop_leaves_out_looks_after_one_in_vain(loop):
    watch = LoopWatch.of(loop)
    for _ in range(2):
        assert [run(loop, watch) >= 50 for _ in range(2)] == [True, False]
        assert run(loop, watch, others=[watch.heard]) < 10, "what was found makes up for what was not"


@pytest.mark.parametrize(("turns", "is_watched_on"), [(10, True), (30, False)])
def test_a_loop_that_hears_late_in_look_after_look_leaves_looks_out(loop, turns: int, is_watched_on: bool):
    """A look is of fifty turns, of which twenty are soon."""
    watch = LoopWatch.of(loop)

    def in_turns(left: int) -> None:
        loop.call_soon(in_turns, left - 1) if left else watch.heard()

    for _ in range(MOST_LATE + 1):
        assert run(loop, watch, others=[lambda: in_turns(turns)]) < 50
    assert (run(loop, watch) >= 50) == is_watched_on


def test_others_have_their_turns_while_a_loop_stays_awake(loop):
    had_turns = []
    run(loop, LoopWatch.of(loop), others=[lambda: had_turns.append(1), lambda: had_turns.append(2)])
    assert had_turns == [1, 2]
