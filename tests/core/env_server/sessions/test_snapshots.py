"""Snapshots that a server keeps: bounded in number and bytes, found by their token alone."""

import pytest

from openenv.core.env_server import ServerConfig
from openenv.core.env_server.sessions.snapshots import Snapshots
from openenv.core.errors import MessageTooBig, SessionFault


def test_the_oldest_snapshots_make_way_when_there_are_too_many():
    snapshots = Snapshots(max_number=2, max_bytes=100)
    tokens = [snapshots.keep(text) for text in (b"a", b"b", b"c")]

    assert [snapshots.find(token) for token in tokens[1:]] == [b"b", b"c"]
    with pytest.raises(SessionFault, match="only the newest 2 are kept"):
        snapshots.find(tokens[0])


def test_the_oldest_snapshots_make_way_when_they_are_too_large_together():
    snapshots = Snapshots(max_number=9, max_bytes=10)
    tokens = [snapshots.keep(bytes(4)) for _ in range(3)]

    with pytest.raises(SessionFault):
        snapshots.find(tokens[0])
    assert len(snapshots.find(tokens[1])) == 4


def test_a_snapshot_above_the_limit_is_refused_and_the_others_stay():
    snapshots = Snapshots(max_number=9, max_bytes=10)
    token = snapshots.keep(b"kept")
    with pytest.raises(MessageTooBig, match="11 bytes is above this server's limit of 10"):
        snapshots.keep(bytes(11))
    assert snapshots.find(token) == b"kept"


@pytest.mark.parametrize("name", ["max_sessions", "max_snapshots", "max_snapshot_bytes", "max_message_bytes"])
def test_a_limit_of_nothing_is_refused_by_name(name):
    with pytest.raises(ValueError, match=f"{name}=0: give 1 or more"):
        ServerConfig(**{name: 0})
