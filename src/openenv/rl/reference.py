"""The model as it was before training: what the divergence is measured from."""

import copy
import hashlib
from collections import OrderedDict

import torch
from torch import Tensor
from transformers import PreTrainedModel

from openenv.rl.batch import Batch
from openenv.rl.config import Precision
from openenv.rl.model import autocast, next_token_logits

_ROWS_REMEMBERED = 200_000


class ReferenceModel:
    """A frozen copy of a model. It never changes, so what it says of a sequence is worked out once and remembered."""

    def __init__(self, model: PreTrainedModel, precision: Precision) -> None:
        self.model = copy.deepcopy(model).train(False).requires_grad_(False)
        self.precision: Precision = precision
        self._known: OrderedDict[bytes, Tensor] = OrderedDict()
        """By sequence: the log-probabilities of its sampled tokens."""

    def logprobs(self, batch: Batch) -> Tensor:
        """Log-probability of each sampled position's token, [P]."""
        counts = torch.bincount(batch.rows, minlength=len(batch.input_ids)).tolist()
        keys = _keys(batch, counts)
        new = [row for row, key in enumerate(keys) if key not in self._known]
        if new:
            said = torch.split(self._work_out(batch, torch.tensor(new)), [counts[row] for row in new])
            self._known.update(zip((keys[row] for row in new), said, strict=True))
        logprobs = torch.cat([self._known[key] for key in keys])
        while len(self._known) > _ROWS_REMEMBERED:
            self._known.popitem(last=False)
        return logprobs

    @torch.no_grad()
    def _work_out(self, batch: Batch, rows: Tensor) -> Tensor:
        """The same for some of the batch's rows, by a forward pass over them."""
        number = torch.full((len(batch.input_ids),), -1)
        number[rows] = torch.arange(len(rows))
        asked = number[batch.rows] >= 0
        with autocast(self.precision, self.model.device):
            logits = next_token_logits(
                self.model, batch.input_ids[rows], number[batch.rows[asked]], batch.columns[asked]
            )
        return torch.log_softmax(logits, dim=-1).gather(1, batch.targets[asked][:, None])[:, 0]


def _keys(batch: Batch, counts: list[int]) -> list[bytes]:
    """One for each row: its tokens up to the last sampled one, and which of them are sampled. Padding is left out."""
    tokens = batch.input_ids.numpy()
    keys = []
    for row, columns in enumerate(torch.split(batch.columns, counts)):
        where = columns.numpy()
        end = int(where[-1]) + 2 if len(where) else 0
        keys.append(hashlib.blake2b(tokens[row, :end].tobytes() + b"|" + where.tobytes(), digest_size=16).digest())
    return keys
