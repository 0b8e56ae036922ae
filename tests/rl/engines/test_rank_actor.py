"""Where the processes of a trainer meet."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from openenv.rl.engines.ray_cluster import rank_actor
from openenv.rl.engines.ray_cluster.rank_actor import RankActor
from tests.rl.engines.runs import config_of


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RankActor]:
    monkeypatch.setattr(rank_actor, "own_address", lambda: "127.0.0.1")
    config = config_of(tmp_path, "ray")
    Path(config.run_dir).mkdir(parents=True)
    actor = RankActor("rank 0", config, os.getcwd())
    with contextlib.closing(actor._stacks), contextlib.closing(actor._log):
        yield actor


async def test_the_first_listens_where_it_lets_the_others_meet(first: RankActor) -> None:
    meeting = await first.meeting()

    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(tuple(meeting))
    socket.create_connection(tuple(meeting), timeout=10).close()
