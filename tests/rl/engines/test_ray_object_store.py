"""A run whose Ray cluster has no room for what it passes on ends with an error that names the object store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.exceptions import OutOfDiskError

from openenv.rl.engines.ray_cluster.engine import RayEngine
from openenv.rl.engines.ray_cluster.object_store import ObjectStoreFull
from tests.rl.engines.runs import config_of, reached, train

pytestmark = pytest.mark.process

SIZE = 80_000_000
LARGE_WEIGHTS = {"model": {"precision": "float32", "num_layers": 1, "hidden_size": 128, "num_heads": 2}}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One machine with a small object store, which writes nothing to the disk."""
    settings = {"local_fs_capacity_threshold": 0.0, "automatic_object_spilling_enabled": False}
    head = {"num_cpus": 8, "include_dashboard": False, "object_store_memory": SIZE, "_system_config": settings}
    machines = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield machines
    finally:
        ray.shutdown()
        machines.shutdown()


def fill() -> list[Any]:
    """Objects that leave no room for one of 50 kB. They stay while the list does."""
    held, size = list[Any](), SIZE // 2
    while size > 50_000:
        try:
            held.append(ray.put(bytes(size)))
        except OutOfDiskError:
            size //= 2
        assert len(held) < 20, "the object store writes to the disk"
    return held


async def test_a_full_object_store_ends_the_run_with_its_size_and_the_remedy(cluster: Cluster, tmp_path: Path) -> None:
    ray.init(address=cluster.address)
    held = fill()

    with pytest.raises(
        ObjectStoreFull, match=r"no room for the weights of version 0: that of [\d.]+ has 80 MB"
    ) as full:
        await train(config_of(tmp_path, "ray", LARGE_WEIGHTS, address=cluster.address), 1)

    assert held
    assert "--object-store-memory=BYTES" in str(full.value)
    assert full.value.__suppress_context__  # no traceback of Ray


async def test_an_object_store_that_fills_later_ends_the_run_too(cluster: Cluster, tmp_path: Path) -> None:
    held = list[Any]()

    async def fill_later(engine: RayEngine) -> None:
        await reached(engine, 2)
        held.extend(fill())

    with pytest.raises(ObjectStoreFull, match=r"no room for the (weights of version|groups of) "):
        await train(config_of(tmp_path, "ray", LARGE_WEIGHTS, address=cluster.address), 1000, fill_later)

    assert held
