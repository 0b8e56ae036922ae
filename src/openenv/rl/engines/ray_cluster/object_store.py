"""The memory of a Ray cluster in which its actors pass weights and groups to each other."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import ObjectStoreFullError, OutOfDiskError

from openenv.core.errors import OpenEnvError

_MEGABYTE = 1e6


class ObjectStoreFull(OpenEnvError):
    """An object store of Ray has no room for what a run passes on, and cannot write other objects to the disk."""


@contextmanager
def naming_full_store(passed: str) -> Iterator[None]:
    """Raise ObjectStoreFull where an object store is full. passed: what the work inside passes on."""
    try:
        yield
    except (ObjectStoreFullError, OutOfDiskError):  # of this process, or of an actor
        raise ObjectStoreFull(
            f"an object store of Ray has no room for {passed}: {_sizes()}, and Ray cannot write to the disk what is "
            "still held (`ray memory` lists it, `df` shows the disk). Start the machines of the cluster with more "
            "(`ray start --object-store-memory=BYTES`), end what else fills it, or have less in flight: lower "
            "replay_buffer.batch_size or checkpoint.interval, since groups are kept until the next checkpoint. Then "
            "resume the run with --resume."
        ) from None


def _sizes() -> str:
    """That of the smallest store of the cluster, and its machine."""
    cluster: Any = ray
    there = [one for one in cluster.nodes() if one["Alive"]]
    found = [(one["Resources"].get("object_store_memory", 0.0), one["NodeManagerAddress"]) for one in there]
    size, address = min(found)
    if len(found) == 1:
        return f"that of {address} has {size / _MEGABYTE:,.0f} MB"
    return f"the smallest of {len(found)}, on {address}, has {size / _MEGABYTE:,.0f} MB"
