"""The Ray cluster of a run: one that runs already, or one that the run starts on this machine."""

import asyncio
import logging
import os
import time
from typing import Any

import ray
from ray.exceptions import RayActorError

from openenv.core.errors import NotReady
from openenv.rl.config.engine import EngineConfig

_RESTART_LIMIT_S, _POLL_S = 120.0, 0.2

LASTING: dict[str, Any] = {"num_cpus": 1, "max_restarts": -1}
"""Options of an actor that Ray makes again, on any machine, when its process has ended. A call that ran then fails, and
is not repeated by Ray."""


async def alive(actor: Any, name: str) -> None:
    """Wait until an actor that has ended was made again. Raises NotReady after two minutes. name: for the error."""
    deadline = time.monotonic() + _RESTART_LIMIT_S
    while True:
        try:
            await actor.__ray_ready__.remote()
            return
        except RayActorError as error:
            if time.monotonic() > deadline:
                raise NotReady(
                    f"{name} has ended, and was not started again within {_RESTART_LIMIT_S:.0f} s"
                ) from error
            await asyncio.sleep(_POLL_S)


def connect(config: EngineConfig) -> bool:
    """Reach the cluster at `engine.address`, or start one. Returns whether this process has started it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to others
    namespace = f"openenv-{os.getpid()}"
    if config.address:
        ray.init(address=config.address, namespace=namespace, logging_level=logging.ERROR)
        return False
    actors = config.generators + config.rollout_workers + config.trainer_ranks
    ray.init(
        num_cpus=max(actors, os.cpu_count() or 1),
        include_dashboard=False,
        namespace=namespace,
        logging_level=logging.ERROR,
    )
    return True
