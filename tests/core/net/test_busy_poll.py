"""Busy polling: spins that receive soon are repeated, spins that receive nothing are skipped."""

import asyncio
import itertools
import math
import socket
from types import SimpleNamespace

import pytest

from openenv.core.net import busy_poll
from openenv.core.net.busy_poll import (
    INTERRUPTED_S,
    MAX_LATE,
    MAX_SKIPPED,
    NUM_UNINTERRUPTED,
    PROMPT_S,
    SPIN_S,
    LoopSpinner,
    SocketSpinner,
    SpinBackoff,
)

TURN_S = 1e-5


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock of which each look takes `TURN_S`: a real one shows interruptions by whatever else the machine runs."""
    looks = itertools.count()
    monkeypatch.setattr(busy_poll, "time", SimpleNamespace(perf_counter=lambda: next(looks) * TURN_S))


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def backoff():
    return SpinBackoff(is_enabled=True)


def skipped(backoff: SpinBackoff) -> int:
    """How many spins are skipped before the next one."""
    number, backoff.num_to_skip = backoff.num_to_skip, 0
    return number


def test_each_miss_skips_twice_as_many_spins_until_a_hit(backoff):
    drawn = [set[int]() for _ in range(4)]
    for _ in range(200):
        for numbers in drawn:
            backoff.miss(SPIN_S)
            numbers.add(skipped(backoff))
        backoff.hit(PROMPT_S)
        assert skipped(backoff) == 0
    assert drawn == [{1}, {2, 3}, {4, 5, 6, 7}, set(range(8, 16))]


def test_no_more_than_a_maximum_is_skipped(backoff):
    for _ in range(20):
        backoff.miss(SPIN_S)
    assert (MAX_SKIPPED + 1) // 2 <= skipped(backoff) <= MAX_SKIPPED


def test_after_many_late_messages_spins_are_skipped(backoff):
    for most in (1, 3, 7):
        for _ in range(MAX_LATE):
            backoff.hit(1.5 * PROMPT_S)
            assert skipped(backoff) == 0
        backoff.hit(1.5 * PROMPT_S)
        assert (most + 1) // 2 <= skipped(backoff) <= most


def test_each_prompt_message_makes_up_for_a_late_one(backoff):
    for after_s in [1.5 * PROMPT_S, PROMPT_S] * 2 * MAX_LATE:
        backoff.hit(after_s)
        assert skipped(backoff) == 0


@pytest.mark.finding("busy polling stops where it does not pay, and can be turned off")
def test_spins_that_other_processes_interrupt_are_skipped_longer_each_time(backoff):
    for most in (255, 511, 1023, 2047):
        interrupt = backoff.hit if most in (255, 1023) else backoff.miss
        interrupt(INTERRUPTED_S + SPIN_S)
        assert (most + 1) // 2 <= skipped(backoff) <= most
        backoff.hit(PROMPT_S)


@pytest.mark.finding("busy polling stops where it does not pay, and can be turned off")
def test_many_prompt_messages_show_that_the_processors_are_free_again(backoff):
    for _ in range(8):
        backoff.miss(INTERRUPTED_S + SPIN_S)
        skipped(backoff)
    for _ in range(NUM_UNINTERRUPTED + 1):
        backoff.hit(PROMPT_S)

    backoff.miss(INTERRUPTED_S + SPIN_S)
    assert 128 <= skipped(backoff) <= 255


def test_a_disabled_backoff_never_spins():
    backoff = SpinBackoff(is_enabled=False)
    backoff.hit(PROMPT_S)
    assert backoff.num_to_skip == math.inf


def test_a_socket_spinner_returns_what_has_arrived(pair):
    ours, theirs = pair
    spinner = SocketSpinner(ours)
    for _ in range(3):
        theirs.sendall(b"response")
        assert spinner.recv(16) == b"response"


def test_a_socket_spinner_skips_the_spin_after_a_miss(pair):
    ours, theirs = pair
    spinner = SocketSpinner(ours)
    for _ in range(2):
        assert spinner.recv(16) == b""
        theirs.sendall(b"response")
        assert [spinner.recv(16), spinner.recv(16)] == [b"", b"response"]


def test_the_environment_variable_turns_polling_off(pair, monkeypatch):
    monkeypatch.setenv("OPENENV_BUSY_POLL", "0")
    ours, theirs = pair
    spinner = SocketSpinner(ours)
    theirs.sendall(b"response")
    assert [spinner.recv(16) for _ in range(MAX_SKIPPED + 2)] == [b""] * (MAX_SKIPPED + 2)


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts the callbacks that keep it awake."""

    def __init__(self) -> None:
        super().__init__()
        self.num_polls = 0

    def call_soon(self, callback, *args, context=None):
        self.num_polls += 1
        return super().call_soon(callback, *args, context=context)


@pytest.fixture
def loop():
    loop = CountingLoop()
    yield loop
    loop.close()


TURNS = 2 * round(SPIN_S / TURN_S)
"""Turns of the loop that a test waits for: longer than a spin. A loop that does not spin runs one callback in each."""


def polls(loop, spinner, *, received_at_once=False) -> int:
    """Callbacks that the loop runs while it waits for a message."""

    async def wait():
        before = loop.num_polls
        spinner.arm(loop)
        if received_at_once:
            spinner.received()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return loop.num_polls - before

    return loop.run_until_complete(wait())


def test_connections_of_a_loop_share_a_spinner(loop):
    assert LoopSpinner.of(loop) is LoopSpinner.of(loop)


def test_an_armed_loop_polls_and_skips_the_spin_after_a_miss(loop):
    spinner = LoopSpinner.of(loop)
    first, second = polls(loop, spinner), polls(loop, spinner)
    assert first > second == TURNS


def test_a_message_ends_the_spin_and_the_next_one_is_not_skipped(loop):
    spinner = LoopSpinner.of(loop)
    assert [polls(loop, spinner, received_at_once=True) for _ in range(3)] == [TURNS + 1] * 3
    assert polls(loop, spinner) > TURNS


def test_a_disabled_loop_never_polls(loop):
    spinner = LoopSpinner.of(loop)
    spinner.disable()
    assert polls(loop, spinner) == TURNS


def test_other_callbacks_run_while_the_loop_spins(loop):
    ran = []
    loop.call_soon(ran.append, 1)
    polls(loop, LoopSpinner.of(loop))
    assert ran == [1]
