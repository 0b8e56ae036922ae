"""Supervised training: a model learns to predict chosen tokens of given sequences, by their mean log-probability."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from openenv.rl.config import Precision
from openenv.rl.models.devices import autocast, moved
from openenv.rl.models.images import Images
from openenv.rl.models.language_model import next_token_logits, padded, row_count, without_dropout
from openenv.rl.models.prompt_tokens import TokenIds

log = logging.getLogger(__name__)

_BETAS, _WEIGHT_DECAY, _MAX_GRAD_NORM = (0.9, 0.98), 0.01, 1.0


@dataclass(frozen=True, slots=True)
class Example:
    """A sequence with the tokens of it that a model learns to predict."""

    token_ids: TokenIds
    predicted: Sequence[int]
    """Their places, from 1: nothing comes before the first token."""
    count: int = 1
    """How often the sequence occurs."""
    images: Images = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedSettings:
    """How long and how fast a model learns."""

    steps: int
    """Number of batches."""
    rows: int
    """Sequences in a batch, drawn by their counts."""
    lr: float
    """Peak learning rate of AdamW. It falls to a tenth in the second half."""
    warmup_steps: int
    tokens_per_forward: int
    """Most tokens in one forward and backward pass, padding included; gradients are summed over passes."""
    precision: Precision
    seed: int


def train_supervised(
    model: PreTrainedModel,
    examples: Sequence[Example],
    settings: SupervisedSettings,
    *,
    pad_id: int,
    on_step: Callable[[int, float], None] = lambda done, loss: None,
    is_time_up: Callable[[], bool] = lambda: False,
) -> list[float]:
    """Train the weights of `model` that are not frozen. Returns the loss of every batch, in nats per predicted token.

    Equal examples in a batch are run once and weighted by their number. on_step: called with the number of batches and
    the loss of the last. is_time_up: no batch begins after it has returned True.
    """
    batches = _Batches(examples, pad_id)
    frequency = torch.tensor([example.count for example in examples], dtype=torch.float32)
    draws = torch.Generator().manual_seed(settings.seed)
    weights = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=settings.lr, betas=_BETAS, weight_decay=_WEIGHT_DECAY)
    without_dropout(model)
    losses: list[float] = []
    for step in range(settings.steps):
        if is_time_up():
            log.warning("max_minutes: supervised training ends after %d of %d batches", step, settings.steps)
            break
        drawn = torch.multinomial(frequency, settings.rows, replacement=True, generator=draws)
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * _schedule(step, settings)
        optimizer.zero_grad(set_to_none=True)
        loss = 0.0
        for part in batches.passes(drawn, settings.tokens_per_forward):
            with autocast(settings.precision, model.device):
                lost = _loss(model, part)
            torch.autograd.backward(lost)
            loss += lost.item()
        torch.nn.utils.clip_grad_norm_(weights, _MAX_GRAD_NORM)
        optimizer.step()
        losses.append(loss)
        on_step(step + 1, loss)
    return losses


@torch.no_grad()
def agreement(
    model: PreTrainedModel, examples: Sequence[Example], *, pad_id: int, precision: Precision, tokens_per_forward: int
) -> tuple[float, float]:
    """The mean loss of a model on examples, in nats per predicted token, and the share of these that are its likeliest
    token there."""
    without_dropout(model)
    batches = _Batches(examples, pad_id)
    loss = right = 0.0
    occurring = torch.repeat_interleave(torch.tensor([example.count for example in examples]))
    for part in batches.passes(occurring, tokens_per_forward):
        with autocast(precision, model.device):
            logits = next_token_logits(model, part.input_ids, part.rows, part.columns, part.images)
        targets, weights = moved(part.targets, model.device), moved(part.weights, model.device)
        losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        loss += float((losses * weights).sum())
        right += float(((logits.argmax(dim=-1) == targets) * weights).sum())
    return loss, right


def _schedule(step: int, settings: SupervisedSettings) -> float:
    """Factor of the learning rate: warm-up, constant until the middle, then a straight line down to a tenth."""
    late = max(0.0, step / settings.steps - 0.5) / 0.5
    return min(1.0, (step + 1) / max(1, settings.warmup_steps)) * (1.0 - 0.9 * late)


@dataclass(frozen=True, slots=True)
class _Pass:
    """Some rows of a batch, U of length L, with P predicted tokens."""

    input_ids: Tensor  # [U, L]
    rows: Tensor  # [P]
    columns: Tensor  # [P] places of the tokens before the predicted ones
    targets: Tensor  # [P]
    weights: Tensor  # [P] of each token's loss; they sum to 1 over a batch
    images: Sequence[Images]  # [U]; empty if no example of all has any


class _Batches:
    """All examples as tensors, of which batches take rows."""

    def __init__(self, examples: Sequence[Example], pad_id: int) -> None:
        self._input_ids = padded([example.token_ids for example in examples], pad_id)
        self._lengths = torch.tensor([len(example.token_ids) for example in examples])
        self._is_predicted = torch.zeros(self._input_ids.shape, dtype=torch.bool)
        for row, example in enumerate(examples):
            self._is_predicted[row, list(example.predicted)] = True
        has_images = any(example.images for example in examples)
        self._images = [example.images for example in examples] if has_images else []

    def passes(self, drawn: Tensor, most_tokens: int) -> list[_Pass]:
        """The batch of these rows, in passes of at most `most_tokens` tokens, padding included. drawn: with repeats."""
        index, counts = _padded_rows(*torch.unique(drawn, return_counts=True))
        width = int(self._lengths[index].max())
        total = (self._is_predicted[index].sum(dim=1) * counts).sum()
        size = max(1, most_tokens // width)
        return [self._pass(index[start : start + size], counts[start : start + size] / total, width)
                for start in range(0, len(index), size)]  # fmt: skip

    def _pass(self, index: Tensor, weights: Tensor, width: int) -> _Pass:
        input_ids = self._input_ids[index, :width]
        rows, places = (self._is_predicted[index, :width] & (weights > 0)[:, None]).nonzero(as_tuple=True)
        images = [self._images[row] for row in index.tolist()] if self._images else []
        return _Pass(input_ids, rows, places - 1, input_ids[rows, places], weights[rows], images)


def _padded_rows(index: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Pad with copies of the first row, of weight 0, to a row count that recurs."""
    gap = row_count(len(index)) - len(index)
    return torch.cat([index, index[:1].expand(gap)]), torch.cat([counts, counts.new_zeros(gap)])


def _loss(model: PreTrainedModel, part: _Pass) -> Tensor:
    """The weighted sum of the losses of a pass."""
    logits = next_token_logits(model, part.input_ids, part.rows, part.columns, part.images)
    losses = torch.nn.functional.cross_entropy(logits, moved(part.targets, model.device), reduction="none")
    return (losses * moved(part.weights, model.device)).sum()
