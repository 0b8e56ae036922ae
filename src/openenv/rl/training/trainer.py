"""The trainer: one optimizer step from a batch of groups."""

import copy
import hashlib
import itertools
import logging
import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from openenv.rl.algorithm import loss as formulas
from openenv.rl.algorithm.batch import TrainingBatch, make_batch
from openenv.rl.algorithm.schedules import decay, entropy_floor, entropy_weight, kl_weight, warm_up
from openenv.rl.algorithm.step_budget import PolicyChange, StepBudget
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config, Precision
from openenv.rl.models.devices import autocast, moved
from openenv.rl.models.divided_weights import gathered, is_sharded, like, saved_parts, whole
from openenv.rl.models.language_model import next_token_logits, without_dropout
from openenv.rl.models.lora import adapter_disabled, has_adapter
from openenv.rl.models.reply_masks import Mask, masked
from openenv.rl.training.ranks import Ranks

_CACHE_SIZE = 200_000
_MOST_CHOICES = 1000
"""A token that was drawn among more is part of a text, and no choice of an action."""


@dataclass(slots=True)
class TokenScores:
    """What a model says of the sampled positions of a batch."""

    logprobs: Tensor  # [P], of the sampled tokens
    entropy: Tensor  # [P], of the distribution that each was drawn from

    @classmethod
    def of(
        cls, logits: Tensor, targets: Tensor, masks: Sequence[Mask | None] = (), *, trains_entropy: bool = True
    ) -> "TokenScores":
        """From the logits of the positions, [P, vocabulary], their tokens, [P], and the masks that these were drawn
        with; empty: none. trains_entropy: whether gradients flow through the entropy, which costs memory."""
        table = torch.log_softmax(masked(logits, masks) if masks else logits, dim=-1)
        with torch.set_grad_enabled(torch.is_grad_enabled() and trains_entropy):
            possible = table.clamp(min=torch.finfo(table.dtype).min)  # 0 times minus infinity is no number
            entropy = -(possible.exp() * possible).sum(dim=-1)
        return cls(table.gather(1, targets[:, None])[:, 0], entropy)


class ReferenceModel:
    """A frozen copy of a model, or a model with an adapter without that adapter.

    Its scores never change, so they are computed once and cached. Where processes hold parts of the model, they are
    computed for each batch: all processes have to run the model equally often.
    """

    def __init__(self, model: PreTrainedModel, precision: Precision) -> None:
        self.model = model if has_adapter(model) else copy.deepcopy(model).train(False).requires_grad_(False)
        self.precision: Precision = precision
        self._known: OrderedDict[bytes, Tensor] = OrderedDict()
        """Log-probabilities and entropies of the sampled tokens, [tokens, 2], by sequence."""

    def clear(self) -> None:
        """Forget what was computed. Equal sequences in another batch differ in the last bits."""
        self._known.clear()

    def scores(self, batch: TrainingBatch) -> TokenScores:
        """The scores of the sampled positions. The batch and the result are on the processor."""
        counts = torch.bincount(batch.rows, minlength=len(batch.input_ids)).tolist()
        keys = _keys(batch, counts)
        if is_sharded(self.model):
            self._known.clear()
        new = [row for row, key in enumerate(keys) if key not in self._known]
        if new:
            computed = torch.split(self._compute(batch, torch.tensor(new)), [counts[row] for row in new])
            self._known.update(zip((keys[row] for row in new), computed, strict=True))
        logprobs, entropy = torch.cat([self._known[key] for key in keys]).unbind(1)
        while len(self._known) > _CACHE_SIZE:
            self._known.popitem(last=False)
        return TokenScores(logprobs, entropy)

    @torch.no_grad()
    def _compute(self, batch: TrainingBatch, rows: Tensor) -> Tensor:
        """Compute them for some rows of the batch with a forward pass."""
        number = torch.full((len(batch.input_ids),), -1)
        number[rows] = torch.arange(len(rows))
        wanted = number[batch.rows] >= 0
        images = [batch.images[row] for row in rows.tolist()] if batch.images else []
        device = self.model.device
        input_ids, places, columns = batch.input_ids[rows], number[batch.rows[wanted]], batch.columns[wanted]
        with autocast(self.precision, device), adapter_disabled(self.model):
            logits = next_token_logits(self.model, input_ids, places, columns, images)
        masks = list(itertools.compress(batch.masks, wanted.tolist()))
        scores = TokenScores.of(logits, batch.targets[wanted].to(device), masks)
        return torch.stack([scores.logprobs, scores.entropy], dim=1).cpu()


def make_reference(model: PreTrainedModel, config: Config) -> ReferenceModel | None:
    """The reference model of a run. None if the divergence from it has no weight in any step."""
    return ReferenceModel(model, config.model.precision) if config.loss.needs_reference else None


def _keys(batch: TrainingBatch, counts: list[int]) -> list[bytes]:
    """A hash of each row: tokens before the last sampled one, which are sampled, images and masks. Padding is left
    out."""
    tokens = batch.input_ids.numpy()
    keys, first = [], 0
    for row, columns in enumerate(torch.split(batch.columns, counts)):
        where, last = columns.numpy(), first + len(columns)
        end = int(where[-1]) + 1 if len(where) else 0
        images = b"".join(image.key for image in batch.images[row]) if batch.images else b""
        targets = batch.targets[first:last].numpy().tobytes()
        masks = b"|".join(mask or b"" for mask in batch.masks[first:last])
        first = last
        data = b"|".join((tokens[row, :end].tobytes(), where.tobytes(), targets, images, masks))
        keys.append(hashlib.blake2b(data, digest_size=16).digest())
    return keys


log = logging.getLogger(__name__)


class Trainer:
    """Holds the trained weights, the optimizer and the reference model: all of them, or the part of this process."""

    def __init__(
        self,
        model: PreTrainedModel,
        reference: ReferenceModel | None,
        config: Config,
        pad_id: int,
        ranks: Ranks | None = None,
    ) -> None:
        """
        Args:
            reference: None if `loss.kl_weight` and `kl_weight_end` are 0. Raises ValueError if it is missing.
            pad_id: the token that pads sequences.
            ranks: the processes among which the model is divided, and which call all methods together; None: this one
                has all of it.
        """
        if reference is None and config.loss.needs_reference:
            raise ValueError(
                f"loss.kl_weight={config.loss.kl_weight}: a weight of the divergence needs a reference model."
            )
        self.ranks = ranks or Ranks()
        self.ranks.shard(model)
        if reference is not None and reference.model is not model:
            self.ranks.shard(reference.model)
        self.model = model
        self.reference = reference
        self.config = config
        self.step_count = 0
        """Number of batches trained on, which is also the policy version of the weights."""
        self._pad_id = pad_id
        self._step_factor = 1.0
        self.budget = StepBudget(config.trainer.kl_target)
        """Limits each step, and has the weight of the entropy bonus that holds the floor."""
        optimizer = config.trainer.optimizer
        self.optimizer = torch.optim.AdamW(
            [weights for weights in model.parameters() if weights.requires_grad],
            lr=optimizer.lr,
            betas=(optimizer.beta1, optimizer.beta2),
            weight_decay=optimizer.weight_decay,
            fused=model.device.type == "cuda" or None,
        )

    def step(self, groups: Sequence[Group], progress: float) -> dict[str, float]:
        """Train on the valid episodes of `groups` and return the step's metrics. Without a gradient nothing changes.

        progress: the fraction of training that is done, 0 to 1, which the schedules follow.
        """
        self._set_learning_rate(progress)
        metrics: dict[str, float] = {"grad_norm": 0.0}
        if groups:
            oldest = self.step_count - self.config.max_policy_age if self.config.oldest_is_left_out else -1
            batch = make_batch(groups, self.config.advantage, self._pad_id, oldest)
            weights = formulas.token_weights(
                self.config.loss.name, batch.episode, batch.num_episodes, self.config.loss.constant_length
            )
            if not self._has_regularization(progress, batch):
                tokens, batch = batch.containing(batch.advantages != 0)
                weights = weights[tokens]
            metrics |= self._updates(batch, weights, progress)
        self.step_count += 1
        return {**metrics, "learning_rate": self.optimizer.param_groups[0]["lr"]}

    def _updates(self, batch: TrainingBatch, weights: Tensor, progress: float) -> dict[str, float]:
        """The optimizer steps on a batch, and the metrics of the last. None on an empty batch."""
        old: Tensor | None = None
        metrics: dict[str, float] = {}
        for _ in range(self.config.trainer.updates_per_batch if len(batch.position) else 0):
            self._set_learning_rate(progress)  # with a budget it follows the length of the update before
            old, metrics = self._update(batch, weights, old, progress)
        return metrics

    def _has_regularization(self, progress: float, batch: TrainingBatch) -> bool:
        """Whether tokens without an advantage have a gradient too."""
        return kl_weight(self.config.loss, progress) > 0 or self._trains_entropy(progress, batch)

    def _trains_entropy(self, progress: float, batch: TrainingBatch) -> bool:
        """Whether the loss has a bonus for entropy."""
        loss = self.config.loss
        has_floor = bool(batch.masks) and entropy_floor(loss, progress) > 0
        return has_floor or entropy_weight(loss, progress) != 0

    def saved_weights(self) -> dict[str, Tensor] | None:
        """The weights by their names, for the first process to save; None where it holds all of them."""
        if not is_sharded(self.model):
            return None
        return self._gathered(saved_parts(self.model, of_adapter=has_adapter(self.model)))

    def _gathered(self, parts: dict[str, Any]) -> dict[str, Any]:
        """What the processes hold parts of, whole, in the first; empty in the others."""
        return parts if self.ranks.size == 1 else gathered(parts, kept=self.ranks.is_first)

    def halve_step(self) -> None:
        """Let the next steps be half as long."""
        self._step_factor *= 0.5
        self.budget.length *= 0.5

    def state_dict(self) -> dict[str, Any]:
        """The state that `load_state_dict` restores, with any number of processes: all but the model's weights."""
        optimizer = self.optimizer.state_dict()
        of_weights = {number: self._gathered(state) for number, state in optimizer["state"].items()}
        return {
            "optimizer": {**optimizer, "state": of_weights},
            "step_count": self.step_count,
            "budget": self.budget.state_dict(),
            "step_factor": self._step_factor,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        weights = [one for group in self.optimizer.param_groups for one in group["params"]]
        of_weights = {
            number: {name: like(weights[number], value) if value.dim() else value for name, value in saved.items()}
            for number, saved in state["optimizer"]["state"].items()
        }
        self.optimizer.load_state_dict({**state["optimizer"], "state": of_weights})
        self.step_count = state["step_count"]
        self.budget.load_state_dict(state["budget"])
        self._step_factor = state["step_factor"]

    def _set_learning_rate(self, progress: float) -> None:
        """By the schedule, or with a budget by the length of the last step: the schedule then lowers the budget."""
        optimizer = self.config.trainer.optimizer
        scheduled = warm_up(optimizer, self.step_count) * decay(optimizer, progress) * self._step_factor
        factor = scheduled if self.budget.target is None else self.budget.length
        for group in self.optimizer.param_groups:
            group["lr"] = optimizer.lr * factor

    def _update(
        self, batch: TrainingBatch, weights: Tensor, old: Tensor | None, progress: float
    ) -> tuple[Tensor, dict[str, float]]:
        """One optimizer step. old: log-probabilities before the batch's first update, [N]; None on the first.

        weights: of each token's loss, [N].
        """
        config = self.config
        without_dropout(self.model)
        self.optimizer.zero_grad(set_to_none=True)
        device = self.model.device
        sums: dict[str, Tensor] = {"loss": torch.zeros((), dtype=torch.float64, device=device)}
        seen, entropy = (torch.zeros(len(batch.position), device=device) for _ in range(2))
        trains_entropy = self._trains_entropy(progress, batch)
        for tokens, on_processor, is_own in self.ranks.parts(batch, config.trainer.most_tokens):
            reference = None if self.reference is None else self.reference.scores(on_processor)
            part, here = on_processor.to(device), moved(tokens, device)
            scores = self._scores(part, trains_entropy=trains_entropy)
            now = scores.logprobs.detach()[part.position]
            before = now if old is None else old[here]
            loss, measured = self._loss(
                part, scores, before, reference, moved(weights[tokens] * is_own, device), progress
            )
            torch.autograd.backward(loss)
            for key, value in measured.items():
                sums[key] = sums.get(key, 0.0) + value.double() * (len(tokens) * is_own)
            if is_own:
                sums["loss"] += loss.detach()
                seen[here], entropy[here] = now, scores.entropy.detach()[part.position]
        self.ranks.add_up(seen, entropy)
        norm = whole(torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.trainer.max_grad_norm))
        if not torch.isfinite(norm):
            raise FloatingPointError(
                f"the gradient of step {self.step_count + 1} is {float(norm)}: the weights are unchanged. Lower "
                "trainer.optimizer.lr, or use model.precision float32."
            )
        summed = torch.stack(list(sums.values()))
        self.ranks.add_up(summed)
        total, *of_tokens = summed.tolist()
        count = max(1, len(batch.position))
        metrics = {key: value / count for key, value in zip(list(sums)[1:], of_tokens, strict=True)}
        metrics |= {"loss": total, "grad_norm": float(norm)}
        metrics |= self._move(batch, seen.cpu(), entropy.cpu(), progress)
        return (seen if old is None else old), metrics

    def _move(self, batch: TrainingBatch, logprobs: Tensor, entropy: Tensor, progress: float) -> dict[str, float]:
        """Make the optimizer's step, within the budget if there is one. Returns what it did.

        logprobs, entropy: of the batch's tokens under the weights before, [N].
        """
        config = self.config
        if self.budget.target is None:
            self.optimizer.step()
            return {}
        weights = [one for group in self.optimizer.param_groups for one in group["params"]]
        before = [one.detach().clone() for one in weights]
        tokens, sample = batch.sample(max(1, config.trainer.most_tokens // 2))
        self.optimizer.step()
        change = self.budget.limit(
            weights,
            before,
            lambda: self._change(sample, logprobs[tokens], entropy[tokens]),
            scale=(decay(config.trainer.optimizer, progress) * self._step_factor) ** 2,
            floor=entropy_floor(config.loss, progress),
        )
        measured = {"step_kl": change.kl, "entropy_bonus": self.budget.bonus}
        is_known = not math.isnan(change.entropy_before)
        return measured | ({"action_entropy": change.entropy_before} if is_known else {})

    @torch.no_grad()
    def _change(self, sample: TrainingBatch, logprobs: Tensor, entropy: Tensor) -> PolicyChange:
        """What a step did to the policy on some tokens. logprobs, entropy: of these tokens before it, [n]."""
        device = self.model.device
        after_there, entropy_there = (torch.zeros(len(logprobs), device=device) for _ in range(2))
        for tokens, on_processor, is_own in self.ranks.parts(sample, self.config.trainer.most_tokens):
            part, here = on_processor.to(device), moved(tokens, device)
            scores = self._scores(part)
            if is_own:
                after_there[here] = scores.logprobs[part.position]
                entropy_there[here] = scores.entropy[part.position]
        self.ranks.add_up(after_there, entropy_there)
        after, entropy_after = after_there.cpu(), entropy_there.cpu()
        distance = formulas.divergence("k3", logprobs, after)
        sizes = sample.choice_sizes(_MOST_CHOICES)
        chosen = sizes > 0
        most = float(sizes.sum())
        return PolicyChange(
            float(distance.mean()) if len(distance) else 0.0,
            float(entropy[chosen].sum()) / most if most else math.nan,
            float(entropy_after[chosen].sum()) / most if most else math.nan,
        )

    def _scores(self, batch: TrainingBatch, *, trains_entropy: bool = False) -> TokenScores:
        """The scores under the trained weights, with gradient."""
        with autocast(self.config.model.precision, self.model.device):
            logits = next_token_logits(self.model, batch.input_ids, batch.rows, batch.columns, batch.images)
        return TokenScores.of(logits, batch.targets, batch.masks, trains_entropy=trains_entropy)

    def _loss(
        self,
        batch: TrainingBatch,
        scores: TokenScores,
        old: Tensor,
        reference: TokenScores | None,
        weights: Tensor,
        progress: float,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a part of the batch, and what is measured on its tokens, in the mean of them. Neither is looked
        at: a GPU is still busy with this part while the next one is launched."""
        config = self.config.loss
        logprobs, entropy = scores.logprobs[batch.position], scores.entropy[batch.position]
        policy = formulas.token_losses(config, logprobs, old, batch.advantages, batch.sequence)
        importance = formulas.importance_weights(config, old, batch.generator_logprobs, batch.sequence)
        bonus = entropy_weight(config, progress)
        measured: dict[str, Tensor] = {}
        rewarded = entropy
        if reference is not None:
            kl = formulas.divergence(config.kl, logprobs, moved(reference.logprobs, logprobs.device)[batch.position])
            policy = policy + kl_weight(config, progress) * kl
            measured["kl"] = kl.detach().mean()
            rewarded = torch.minimum(entropy, moved(reference.entropy, entropy.device)[batch.position])
        losses = policy * importance - bonus * rewarded
        if batch.masks and entropy_floor(config, progress) > 0:
            chosen = batch.choice_sizes(_MOST_CHOICES) > 0
            losses = losses - self.budget.bonus * chosen * entropy
        low, high = formulas.clip_fractions(config, logprobs, old, batch.advantages, batch.sequence)
        mismatch = formulas.divergence("k3", batch.generator_logprobs, old)
        measured |= {
            "entropy": entropy.detach().mean(),
            "clip_ratio/low_mean": low,
            "clip_ratio/high_mean": high,
            "clip_ratio/region_mean": low + high,
            "mismatch_kl": mismatch.mean(),
            "mismatch_masked": (importance == 0).float().mean(),
        }
        return (losses * weights).sum(), measured
