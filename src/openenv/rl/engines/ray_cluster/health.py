"""The actors of a run, as parts that can be asked how they are, and be ended."""

import contextlib
import os
import signal
from typing import Any

import ray

from openenv.rl.waiting.status import PartStatus
from openenv.rl.waiting.watch import PATIENCE_S


def generator_name(number: int) -> str:
    """What a generator is called in waits and logs."""
    return f"generator {number}"


def worker_name(number: int) -> str:
    """What a rollout worker is called there."""
    return f"rollout worker {number}"


def rank_name(number: int) -> str:
    """What a process of the trainer is called there."""
    return f"trainer rank {number}"


class ActorPart:
    """As `waiting.watch.Part`."""

    patience_s = PATIENCE_S

    def __init__(self, name: str, actor: Any) -> None:
        self.name = name
        self._actor = actor

    async def status(self) -> PartStatus:
        """As `Part.status`. Raises RayActorError for an actor that has ended, or begins again."""
        status: PartStatus = await self._actor.status.remote()
        return status

    async def write_stacks(self, reason: str) -> None:
        """As `Part.write_stacks`."""
        await self._actor.write_stacks.remote(reason)

    async def end(self, last: PartStatus) -> bool:
        """As `Part.end`. `ray.kill` asks the process itself to end, which does not answer: a task on its machine ends
        it."""
        task: Any = ray.remote(_kill)
        on_its_machine = {f"node:{last.node}": 0.001}
        await task.options(num_cpus=0, resources=on_its_machine).remote(last.pid)
        return True


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
