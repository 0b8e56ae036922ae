"""The processes that train one model together: each holds a part of its weights, and computes a part of every batch.

The weights are divided by PyTorch's `fully_shard` (FSDP2; Zhao et al., arXiv:2304.11277): a layer is gathered before it
is used, and its gradient is added up over the processes and divided again. The weights of a batch's tokens are made
before it is divided, so sums over the processes are those of one process but for rounding.
"""

from collections.abc import Iterator
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import PreTrainedModel

from openenv.rl.algorithm.batch import TrainingBatch
from openenv.rl.config import require
from openenv.rl.models.images import ARCHITECTURES

_Part = tuple[Tensor, TrainingBatch, bool]


class Ranks:
    """This process among those that train together."""

    def __init__(self, number: int = 0, size: int = 1) -> None:
        """
        Args:
            number: of this process, from 0.
            size: number of processes; 1: this one trains alone.
        """
        self.number = number
        self.size = size

    @classmethod
    def of_group(cls) -> Self:
        """The processes of PyTorch's process group."""
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and publishes weights."""
        return self.number == 0

    def shard(self, model: PreTrainedModel) -> None:
        """Keep only this process's part of the model's weights, of each layer and of what is around the layers.

        Raises ConfigError for a model that reads images, whose encoder runs before the model's own pass begins.
        """
        if self.size == 1:
            return
        rule = "a model that reads images trains in one process."
        require(model.config.model_type not in ARCHITECTURES, "model.path", model.config.model_type, rule)
        mesh = init_device_mesh(model.device.type, (self.size,))
        for module in [*_layers(model), model]:
            # what was gathered for a pass without gradient would be used again after the next change of the weights
            divided: Any = fully_shard(module, mesh=mesh, reshard_after_forward=True)
            divided.set_gradient_divide_factor(1.0)  # the loss is a sum over tokens, and not a mean of means
            divided.set_force_sum_reduction_for_comms(True)  # gloo has no other

    def parts(self, batch: TrainingBatch, max_tokens: int) -> Iterator[_Part]:
        """This process's parts of a batch, of at most `max_tokens` tokens: the indices of a part's tokens in the batch,
        [n], the part, and whether it is this process's own.

        All processes have as many: each gathers the weights together with the others. One that has fewer parts is given
        the shortest sequence, which is not its own, for what is left.
        """
        if self.size == 1:
            for tokens, part in batch.split(max_tokens):
                yield tokens, part, True
            return
        shares = [batch.share(number, self.size) for number in range(self.size)]
        most = max(share.num_parts(max_tokens) for _, share in shares)
        own, share = shares[self.number]
        count = 0
        for tokens, part in share.split(max_tokens):
            count += 1
            yield own[tokens], part, True
        for _ in range(most - count):
            yield (*batch.shortest(), False)

    def add_up(self, *values: Tensor) -> None:
        """Replace tensors by their sums over the processes."""
        if self.size > 1:
            for value in values:
                dist.all_reduce(value)


def _layers(model: PreTrainedModel) -> list[torch.nn.Module]:
    names = set(model._no_split_modules or ())
    return [layer for layer in model.modules() if type(layer).__name__ in names]
