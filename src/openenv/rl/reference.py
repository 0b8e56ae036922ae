"""The model as it was before training: what the divergence is measured from."""

import copy

import torch
from torch import Tensor
from transformers import PreTrainedModel

from openenv.rl.batch import Batch
from openenv.rl.config import Precision
from openenv.rl.model import autocast, next_token_logits


class ReferenceModel:
    """A frozen copy of a model."""

    def __init__(self, model: PreTrainedModel, precision: Precision) -> None:
        self.model = copy.deepcopy(model).train(False).requires_grad_(False)
        self.precision: Precision = precision

    @torch.no_grad()
    def logprobs(self, batch: Batch) -> Tensor:
        """Log-probability of each sampled position's token, [P]."""
        with autocast(self.precision, self.model.device):
            logits = next_token_logits(self.model, batch.input_ids, batch.rows, batch.columns)
        return torch.log_softmax(logits, dim=-1).gather(1, batch.targets[:, None])[:, 0]
