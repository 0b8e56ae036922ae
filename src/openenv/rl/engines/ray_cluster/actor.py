"""A process of a run on a Ray cluster."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import ray
import torch

from openenv.rl.config import Config
from openenv.rl.models.devices import choose_algorithms, device_of
from openenv.rl.waiting.run_log import logged_to_run
from openenv.rl.waiting.stacks import Stacks
from openenv.rl.waiting.status import PartStatus
from openenv.rl.waiting.waits import Waits
from openenv.rl.waiting.watch import ASKED_WITHIN_S

_T = TypeVar("_T")


class Actor:
    """A process of the run. It builds all that it needs from the run's folder when it is made, so that Ray can make it
    again; all machines share the folder's disk. Its event loop answers how it is while a thread of its own works."""

    def __init__(self, name: str, config: Config, folder: str) -> None:
        """Let it find what the driver finds. name: such as generator 0. folder: the working folder of the driver."""
        os.chdir(folder)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        torch.set_num_threads(config.threads)
        choose_algorithms(device_of(config.model.device), deterministic=config.model.deterministic)
        self.name = name
        self.waits = Waits()
        self._stacks = Stacks(config.run_dir, name)
        self._thread = ThreadPoolExecutor(1, name, initializer=torch.set_num_threads, initargs=(config.threads,))
        self._waiting = 0
        self._log = contextlib.ExitStack()
        self._log.enter_context(logged_to_run(config.run_dir, name))

    async def in_thread(self, work: Callable[..., _T], *args: Any) -> _T:
        """What `work` returns, which the thread does after what it was given before."""
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)
        finally:
            self._waiting -= 1
            self.waits.num_ended += 1

    async def status(self) -> PartStatus:
        """How it is."""
        self._stacks.write_unless_called(ASKED_WITHIN_S)
        return PartStatus(
            name=self.name,
            pid=os.getpid(),
            node=own_address(),
            waiting=self._waiting,
            waits=self.waits.now(),
            num_ended=self.waits.num_ended,
            tokens=dict(self.waits.tokens),
        )

    async def unwatched(self) -> None:
        """It is asked no more."""
        self._stacks.close()

    async def write_stacks(self, reason: str) -> None:
        """Add its stacks to its file in the run's folder."""
        self._stacks.write(reason)


def own_address() -> str:
    """The address of this machine in the cluster."""
    cluster: Any = ray.util
    address: str = cluster.get_node_ip_address()
    return address
