"""The processes that `torchrun` has started for one run: the first makes it, the others hold parts of the trainer."""

import logging
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from openenv.rl.config import Config
from openenv.rl.engines.launched import number_of_processes
from openenv.rl.training.rank import TrainerRank

log = logging.getLogger(__name__)

_IDLE_LIMIT = timedelta(days=7)
"""Between two things that the followers do. They end at once when the first process ends."""
_WORK_LIMIT = timedelta(minutes=30)
"""Of one exchange in the midst of a step."""


class Followers:
    """The other processes of a run, as its first one knows them. There may be none."""

    def __init__(self, group: Any = None) -> None:
        """group: the process group of the messages to them; None: there are none."""
        self._group = group

    @classmethod
    def of_torchrun(cls, config: Config) -> "Followers":
        """Those that torchrun has started, once they have loaded the model before GRPO; none without torchrun."""
        if number_of_processes() == 1:
            return cls()
        followers = cls(_join())
        followers._send(config)
        return followers

    def call(self, method: Callable[..., Any], *args: Any) -> None:
        """Let all followers call a method of their trainer, while this process does the same."""
        self._send((method.__name__, args))

    def end(self) -> None:
        """Let them end. A second call does nothing."""
        self._send(None)
        if self._group is not None:
            dist.destroy_process_group()
            self._group = None

    def _send(self, message: object) -> None:
        if self._group is not None:
            dist.broadcast_object_list([message], group=self._group)


def follow() -> None:
    """Do what the first process sends, until it ends the run. Raises RuntimeError if it ends otherwise."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the first process saves a checkpoint yet, with the others
    group = _join()
    config = _received(group)
    if config is None:
        return
    torch.set_num_threads(config.threads)
    rank = TrainerRank.follower(config)
    log.info("trainer: process %d of %d has its part of the model", dist.get_rank() + 1, dist.get_world_size())
    while (message := _received(group)) is not None:
        method, args = message
        getattr(rank, method)(*args)
    dist.destroy_process_group()


def _received(group: Any) -> Any:
    message: list[Any] = [None]
    dist.broadcast_object_list(message, group=group)
    return message[0]


def _join() -> Any:
    """Meet the other processes. Returns the group of its messages."""
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=_WORK_LIMIT)
    return dist.new_group(backend="gloo", timeout=_IDLE_LIMIT)
