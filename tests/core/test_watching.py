"""A blocking client looks for its answer a moment before it sleeps, and not where that was in vain."""

import socket

import pytest

from openenv.core.connection import _MOST_LEFT_OUT, _Watch


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_what_has_come_is_seen(pair):
    ours, theirs = pair
    watch = _Watch(ours)
    for _ in range(3):
        theirs.sendall(b"answer")
        assert watch.seen() == b"answer"


def test_after_looks_in_vain_ever_more_are_left_out_until_one_is_not(pair):
    ours, theirs = pair
    watch = _Watch(ours)
    for left_out in (1, 3, 7):
        assert watch.seen() == b""  # in vain: nothing is there
        theirs.sendall(b"answer")
        assert [watch.seen() for _ in range(left_out)] == [b""] * left_out
        assert ours.recv(16) == b"answer"
    theirs.sendall(b"answer")
    assert watch.seen() == b"answer"
    assert watch.seen() == b""
    theirs.sendall(b"answer")
    assert [watch.seen(), watch.seen()] == [b"", b"answer"]


def test_the_looks_that_are_left_out_have_an_end(pair):
    ours, theirs = pair
    watch = _Watch(ours)
    for _ in range(3 * _MOST_LEFT_OUT):
        watch.seen()
    theirs.sendall(b"answer")
    assert b"answer" in [watch.seen() for _ in range(_MOST_LEFT_OUT + 1)]
