"""One optimizer step from a batch of groups."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from openenv.rl import loss as formulas
from openenv.rl.batch import Batch, make_batch
from openenv.rl.config import Config
from openenv.rl.model import autocast, next_token_logits
from openenv.rl.reference import ReferenceModel
from openenv.rl.trajectory import Group

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Scores:
    """What the trained model says of a batch."""

    logprobs: Tensor  # [P], with gradient
    entropy: Tensor  # [P], with gradient


class Trainer:
    """Holds the trained weights, the optimizer and the reference model."""

    def __init__(self, model: PreTrainedModel, reference: ReferenceModel, config: Config, pad_id: int) -> None:
        self.model = model
        self.reference = reference
        self.config = config
        self.step_count = 0
        """Batches trained on; also the policy version of the weights."""
        self._pad_id = pad_id
        optimizer = config.trainer.optimizer
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=optimizer.lr,
            betas=(optimizer.beta1, optimizer.beta2),
            weight_decay=optimizer.weight_decay,
        )

    def step(self, groups: Sequence[Group], progress: float) -> dict[str, float]:
        """Train on the valid episodes of `groups` and return the step's metrics.

        progress: the part of training that is done, from 0 to 1; the schedules follow it.
        """
        batch = make_batch(groups, self.config.advantage, self._pad_id)
        lr = self._set_learning_rate(progress)
        old: Tensor | None = None
        metrics: dict[str, float] = {}
        for _ in range(self.config.trainer.updates_per_batch):
            old, metrics = self._update(batch, old, progress)
        self.step_count += 1
        return {**metrics, "learning_rate": lr}

    def kl_weight(self, progress: float) -> float:
        """The weight of the divergence at this part of training."""
        loss = self.config.loss
        return loss.kl_weight + (loss.kl_weight_end - loss.kl_weight) * progress

    def state_dict(self) -> dict[str, Any]:
        """All that `load_state_dict` needs to go on from here, the model's weights excepted."""
        return {"optimizer": self.optimizer.state_dict(), "step_count": self.step_count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.step_count = state["step_count"]

    def _set_learning_rate(self, progress: float) -> float:
        optimizer = self.config.trainer.optimizer
        warm = min(1.0, (self.step_count + 1) / max(1, optimizer.warmup_steps))
        left = min(1.0, (1.0 - progress) / max(1e-9, 1.0 - optimizer.decay_from))
        lr = optimizer.lr * warm * left
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        return lr

    def _update(self, batch: Batch, old: Tensor | None, progress: float) -> tuple[Tensor, dict[str, float]]:
        """One optimizer step. old: log-probabilities before the batch's first update, [N]; None on the first."""
        config = self.config
        self.model.train(False)  # no dropout: generator and reference have none, and the ratios compare like with like
        self.optimizer.zero_grad(set_to_none=True)
        weights = formulas.token_weights(
            config.loss.name, batch.episode, batch.num_episodes, config.loss.constant_length
        )
        sums: dict[str, float] = {}
        seen = torch.empty_like(batch.generator_logprobs)
        for tokens, part in batch.split(config.trainer.rows_per_forward):
            scores = self._scores(part)
            seen[tokens] = scores.logprobs.detach()[part.position]
            before = seen[tokens] if old is None else old[tokens]
            loss = self._loss(part, scores, before, weights[tokens], progress, sums)
            torch.autograd.backward(loss)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.trainer.max_grad_norm)
        if not torch.isfinite(norm):
            raise FloatingPointError(
                f"the gradient of step {self.step_count + 1} is {float(norm)}: the weights are as before it. Lower "
                "trainer.optimizer.lr, or use model.precision float32."
            )
        self.optimizer.step()
        count = max(1, len(batch.position))
        metrics = {key: value / count for key, value in sums.items()}
        return (seen if old is None else old), {**metrics, "grad_norm": float(norm)}

    def _scores(self, batch: Batch) -> _Scores:
        with autocast(self.config.model.precision, self.model.device):
            logits = next_token_logits(self.model, batch.input_ids, batch.rows, batch.columns)
        table = torch.log_softmax(logits, dim=-1)
        logprobs = table.gather(1, batch.targets[:, None])[:, 0]
        return _Scores(logprobs, -(table.exp() * table).sum(dim=-1))

    def _loss(
        self, batch: Batch, scores: _Scores, old: Tensor, weights: Tensor, progress: float, sums: dict[str, float]
    ) -> Tensor:
        """The loss of a part of the batch; what is measured on its tokens is added to `sums`."""
        config = self.config.loss
        logprobs, entropy = scores.logprobs[batch.position], scores.entropy[batch.position]
        reference = self.reference.logprobs(batch)[batch.position]
        policy = formulas.token_losses(config, logprobs, old, batch.advantages, batch.sequence)
        policy = policy * formulas.importance_weights(old, batch.generator_logprobs, config.importance_cap)
        kl = formulas.divergence(config.kl, logprobs, reference)
        bonus = config.entropy_weight * (1.0 - progress)
        loss = ((policy + self.kl_weight(progress) * kl - bonus * entropy) * weights).sum()
        low, high = formulas.clip_fractions(config, logprobs, old, batch.advantages, batch.sequence)
        mismatch = formulas.divergence("k3", batch.generator_logprobs, old)
        measured = {
            "kl": kl.detach().mean().item(),
            "entropy": entropy.detach().mean().item(),
            "clip_ratio/low_mean": low,
            "clip_ratio/high_mean": high,
            "mismatch_kl": mismatch.mean().item(),
        }
        for key, value in measured.items():
            sums[key] = sums.get(key, 0.0) + value * len(logprobs)
        return loss
