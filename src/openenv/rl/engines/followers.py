"""The processes that `torchrun` has started for one run: the first makes it, the others hold parts of the trainer."""

import logging
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from openenv.rl.config import Config, ConfigError, require
from openenv.rl.engines.launched import is_follower, number_of_processes
from openenv.rl.training.trainer_rank import TrainerRank

log = logging.getLogger(__name__)

_IDLE_LIMIT = timedelta(days=7)
"""Between two messages. Followers end at once when the first process ends."""
_WORK_LIMIT = timedelta(minutes=30)
"""Of one exchange in a step, and of the meeting of all processes."""


class Followers:
    """The other processes of a run, for its first one. There may be none."""

    def __init__(self, group: "dist.ProcessGroup | None" = None) -> None:
        """group: of the messages to them; None: there are none."""
        self._group = group

    @classmethod
    def of_torchrun(cls, config: Config) -> "Followers":
        """Those that torchrun has started, once all have met; none without torchrun.

        Raises ConfigError for a device that each process cannot have one of, RuntimeError in a follower.
        """
        if number_of_processes() == 1:
            return cls()
        if is_follower():
            raise RuntimeError("the first process of torchrun makes the run: call engines.followers.follow() in others")
        device = config.model.device
        rule = "with torchrun each process has a GPU of its own. Use auto."
        require(device in ("auto", "cpu", "cuda"), "model.device", device, rule)
        return cls(_join())

    @property
    def are_some(self) -> bool:
        """Whether there is one."""
        return self._group is not None

    def begin(self, config: Config) -> None:
        """Let them load the model before GRPO, which this process has saved."""
        self._send(config)

    def call(self, method: Callable[..., Any], *args: Any) -> None:
        """Let them call a method of their trainer, while this process does the same."""
        self._send((method.__name__, args))

    def end(self) -> None:
        """Let them end. A second call does nothing."""
        if self._group is not None:
            self._send(None)
            self._group = None
            dist.destroy_process_group()

    def _send(self, message: object) -> None:
        if self._group is not None:
            dist.broadcast_object_list([message], group=self._group)


def follow() -> None:
    """Do what the first process sends, until it ends the run. Raises RuntimeError if it ends otherwise."""
    for number in (signal.SIGINT, signal.SIGTERM):  # Python's own handlers do not run while PyTorch waits
        signal.signal(number, signal.SIG_DFL)
    group = _join()
    config = _received(group)
    if config is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # the first process saves its last checkpoint with the others
        rank = TrainerRank.follower(config)
        log.info("trainer: process %d of %d has its part of the model", dist.get_rank() + 1, dist.get_world_size())
        while (message := _received(group)) is not None:
            method, args = message
            try:
                getattr(rank, method)(*args)
            except FloatingPointError:  # the first process has it too, and ends the run in its own time
                log.exception("the step was not made")
    dist.destroy_process_group()


def _received(group: "dist.ProcessGroup") -> Any:
    message: list[Any] = [None]
    dist.broadcast_object_list(message, group=group)
    return message[0]


def _join() -> "dist.ProcessGroup":
    """Meet the other processes. Returns the group of messages. Raises ConfigError without a GPU for each."""
    has_gpus = torch.cuda.is_available()
    if has_gpus:
        own, number = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if own >= number:
            raise ConfigError(f"torchrun started process {own + 1} here, and there are {number} GPUs. Start fewer.")
        torch.cuda.set_device(own)
    dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpus else "gloo", timeout=_WORK_LIMIT)
    # a child that makes a group of its own, such as vLLM, is no process of torchrun
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    group: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=_IDLE_LIMIT)
    return group
