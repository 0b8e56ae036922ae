"""An output layer in float32, for a model whose other layers compute in bfloat16."""

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from openenv.rl.config import ConfigError


class _Float32Linear(torch.nn.Linear):
    """A linear layer that computes in float32, also inside autocast and with weights of another type."""

    def forward(self, inputs: Tensor) -> Tensor:
        """The outputs, in float32."""
        with torch.autocast(inputs.device.type, enabled=False):
            bias = None if self.bias is None else self.bias.float()
            return functional.linear(inputs.float(), self.weight.float(), bias)


def compute_output_in_float32(model: PreTrainedModel) -> None:
    """Let the output layer compute in float32. Copies of the model do too; its weights and their names stay.

    Raises ConfigError for an output layer that is no linear layer.
    """
    layer: Any = cast(Any, model).get_output_embeddings()
    if type(layer) is not torch.nn.Linear:
        name = type(layer).__name__
        raise ConfigError(
            f"model.float32_output: the output layer of {type(model).__name__} is a {name}. Leave it out."
        )
    layer.__class__ = _Float32Linear
