"""The processes that train one model together: each holds a part of its weights, and computes a part of every batch.

The weights are divided by PyTorch's `fully_shard` (FSDP2; Zhao et al., arXiv:2304.11277): a layer is gathered before it
is used, and its gradient is added up over the processes and divided again. The weights of a batch's tokens are made
before it is divided, so sums over the processes are those of one process but for rounding.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import PreTrainedModel

from openenv.rl.algorithm.batch import TrainingBatch

_Part = tuple[Tensor, TrainingBatch, bool]


class Ranks:
    """This process among those that train together."""

    def __init__(self) -> None:
        """Those of PyTorch's process group; without one this process trains alone."""
        together = dist.is_initialized()
        self.size = dist.get_world_size() if together else 1
        """Number of processes."""
        self.number = dist.get_rank() if together else 0
        """Of this process, from 0."""

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and publishes weights."""
        return self.number == 0

    def shard(self, model: PreTrainedModel) -> None:
        """Keep only this process's part of the model's weights, of each layer and of what is around the layers."""
        if self.size == 1:
            return
        mesh = init_device_mesh(model.device.type, (self.size,))
        for module in [*_text_layers(model), model]:
            # what was gathered for a pass without gradient would be used again after the next change of the weights
            divided: Any = fully_shard(module, mesh=mesh, reshard_after_forward=True)
            divided.set_gradient_divide_factor(1.0)  # the loss is a sum over tokens, and not a mean of means
            divided.set_force_sum_reduction_for_comms(True)  # gloo has no other
            divided.set_reduce_scatter_unused_params(True)  # a part of the batch may have no image

    def parts(self, batch: TrainingBatch, max_tokens: int) -> Iterator[_Part]:
        """This process's parts of a batch, of at most `max_tokens` tokens: the indices of a part's tokens in the batch,
        [n], the part, and whether it counts.

        All processes have as many: each gathers the weights together with the others. One that has fewer sequences
        repeats one that does not count.
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


def _text_layers(model: PreTrainedModel) -> list[torch.nn.Module]:
    """The layers that every sequence passes, so that all processes gather them equally often. Those of an image's
    encoder are gathered with the rest of the model."""
    names = set(model._no_split_modules or ())
    whole: Any = model
    decoder = whole.get_decoder()
    return [layer for layer in decoder.modules() if type(layer).__name__ in names]
