"""The Ray cluster of a run: one that runs already, or one that the run starts on this machine."""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError

from openenv.core.errors import NotReady
from openenv.rl.config import ConfigError
from openenv.rl.config.engine import EngineConfig

log = logging.getLogger(__name__)

START_LIMIT_S = 600.0
"""For all that an actor loads before its first call."""
JOIN_LIMIT_S = 120.0
"""For machines of a cluster that runs already, which may still start."""
_POLL_S = 0.2
MANY = 1000
"""Calls of an actor that may be open at the same time: it answers how it is meanwhile."""
LASTING: dict[str, Any] = {"num_cpus": 1, "max_restarts": -1}
"""Options of an actor that Ray makes again when its process has ended. A call that ran then fails, and is not repeated
by Ray."""


def connect(config: EngineConfig) -> bool:
    """Reach the cluster at `engine.address`, or start one, unless this process has a connection already.

    Returns whether it has none, and has to end this one. Raises ConfigError for a cluster that is too small; one that
    runs already has two minutes in which further machines may join.
    """
    is_first = not ray.is_initialized()
    wanted = config.num_actors
    if is_first:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to others
        if config.address:
            ray.init(address=config.address, logging_level=logging.ERROR)
        else:
            ray.init(
                address="local",
                num_cpus=max(wanted, os.cpu_count() or 1),
                include_dashboard=False,
                logging_level=logging.ERROR,
            )
    there = _processors(wanted, JOIN_LIMIT_S if config.address else 0.0)
    if there < wanted:
        if is_first:
            ray.shutdown()
        raise ConfigError(f"engine: {wanted} actors need a processor each, and the cluster has {there}. Start fewer.")
    return is_first


def keep_own_sigterm() -> None:
    """Let this process act on SIGTERM as before `connect`: Ray's handler aborts it after three seconds."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


def _processors(wanted: int, limit_s: float) -> int:
    """The processors of the cluster, once there are as many as wanted, or after a time: machines join one by one."""
    cluster: Any = ray
    deadline = time.monotonic() + limit_s
    is_named = False
    while (there := int(cluster.cluster_resources().get("CPU", 0))) < wanted and time.monotonic() < deadline:
        if not is_named:
            log.warning("waiting %.0f s at most for machines: %d processors of %d", limit_s, there, wanted)
            is_named = True
        time.sleep(_POLL_S)
    return there


async def ready(actors: Sequence[Any], name: str) -> None:
    """Wait until actors can be called. Raises NotReady with the reason. name: of them, for the error."""
    try:
        async with asyncio.timeout(START_LIMIT_S):
            await asyncio.gather(*(one.__ray_ready__.remote() for one in actors))
    except (TimeoutError, RayActorError) as error:
        reason = f"after {START_LIMIT_S:.0f} s" if isinstance(error, TimeoutError) else str(error)
        raise NotReady(f"{name} did not start: {reason}") from error


async def restarted(actor: Any, name: str) -> None:
    """Wait until an actor that has ended was made again. Raises NotReady with the reason. name: of it."""
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            await ready([actor], name)
            return
        except NotReady as error:
            if not isinstance(error.__cause__, ActorUnavailableError) or time.monotonic() > deadline:
                raise
            await asyncio.sleep(_POLL_S)


def cause_of(error: RayTaskError) -> Exception:
    """The error of the actor itself, without Ray's traceback."""
    return error.cause if isinstance(error.cause, Exception) else error
