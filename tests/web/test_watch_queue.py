"""What a watcher has not read yet is kept up to a number of verbs and up to a size."""

import pytest

from openenv.core.env_server.runner.env_runner import EncodedResponse
from openenv.web.relay import WatchQueue

MIB = 1 << 20


@pytest.mark.parametrize(("action", "answer"), [({"text": "a" * 10 * MIB}, b"{}"), ({}, b'"%b"' % (b"a" * 10 * MIB))])
def test_large_verbs_that_are_not_read_are_dropped_and_counted(action, answer):
    queue = WatchQueue(200)
    for _ in range(3):
        queue.on_response("step", action, EncodedResponse(answer))

    verbs, num_dropped = queue.take()
    assert (len(verbs), num_dropped) == (1, 2)
    queue.on_response("step", action, EncodedResponse(answer))
    assert (len(queue.take()[0]), queue.take()) == (1, ([], 0))


def test_more_verbs_than_the_queue_holds_are_dropped_and_counted():
    queue = WatchQueue(2)
    for number in range(5):
        queue.on_response("step", {"number": number}, EncodedResponse(b"{}"))

    verbs, num_dropped = queue.take()
    assert ([watched.data["number"] for watched in verbs], num_dropped) == ([3, 4], 3)
