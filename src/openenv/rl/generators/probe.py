"""Finds out whether a generator elsewhere has the trainer's weights: by its log-probabilities of a few tokens."""

import random
from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from openenv.core.errors import OpenEnvError
from openenv.rl.config import Precision
from openenv.rl.models.language_model import autocast, next_token_logits
from openenv.rl.models.prompt_tokens import TokenIds

_TOKENS = 48
MAX_DISTANCE = 0.15
"""Nats a token, on average. bfloat16 costs 0.03, and one matrix of the step before 0.7."""


class GeneratorDisagrees(OpenEnvError):
    """A generator does not have the weights that it was given."""


class Probe:
    """Tokens drawn at random, so that every part of the model matters, with the log-probability of each."""

    def __init__(self, vocab_size: int, precision: Precision) -> None:
        """precision: of the trainer's products."""
        self.token_ids: TokenIds = tuple(random.Random(0).randrange(vocab_size) for _ in range(_TOKENS))
        self._precision = precision

    @torch.no_grad()
    def measured(self, model: PreTrainedModel) -> list[float]:
        """The log-probability of each token but the first."""
        ids = torch.tensor([self.token_ids])
        columns = torch.arange(_TOKENS - 1)
        with autocast(self._precision, model.device):
            logits = next_token_logits(model, ids, torch.zeros_like(columns), columns)
        values = torch.log_softmax(logits.cpu(), dim=-1).gather(1, ids[0, 1:, None])[:, 0]
        found: list[float] = values.tolist()
        return found


def require_agreement(trainer: Sequence[float], generator: Sequence[float], version: int) -> None:
    """Raise GeneratorDisagrees unless both have nearly the same log-probabilities of a probe."""
    distance = sum(abs(one - other) for one, other in zip(trainer, generator, strict=True)) / len(trainer)
    if not distance <= MAX_DISTANCE:
        raise GeneratorDisagrees(
            f"the generator is {distance:.2g} nats a token away from the trainer after the update to version "
            f"{version}: it has other weights, or computes them in another way. Is it the model of model.path, in the "
            "type of model.precision?"
        )
