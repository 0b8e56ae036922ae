"""Finds out whether a generator elsewhere has the trainer's weights: by its log-probabilities of a few tokens.

They have no image, so that the layers which read images are not compared.
"""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from openenv.core.errors import OpenEnvError
from openenv.rl.config import Precision
from openenv.rl.models.devices import autocast
from openenv.rl.models.prompt_tokens import TokenIds

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_TOKENS = 48
EXACT = 0.003
"""Largest distance where both compute in float32 on a processor, where it is 1e-7. It is a share of a
log-probability, since rounding grows with it, on average over the tokens."""
ROUNDED = 0.05
"""The same elsewhere: SmolLM2 in bfloat16 on a processor is 0.02 away, 0.35 of 19 nats."""


class GeneratorDisagrees(OpenEnvError):
    """A generator does not have the weights that it was given."""


class Probe:
    """Tokens drawn at random, so that every layer of the language model matters, with the log-probability of each."""

    def __init__(self, vocab_size: int, precision: Precision, max_distance: float, *, image_ids: TokenIds = ()) -> None:
        """Draw the tokens.

        Args:
            vocab_size: of the model.
            precision: of the trainer's products.
            max_distance: of the generator's log-probabilities: EXACT or ROUNDED.
            image_ids: tokens that stand for images, of which the probe has none.
        """
        ids = [token for token in range(vocab_size) if token not in image_ids]
        self.token_ids: TokenIds = tuple(random.Random(0).choices(ids, k=_TOKENS))
        self.max_distance = max_distance
        self._precision = precision

    @torch.no_grad()
    def measured(self, model: "PreTrainedModel") -> list[float]:
        """The log-probability of each token but the first, among all tokens, those of images too."""
        ids = torch.tensor([self.token_ids])
        network: Any = model
        with autocast(self._precision, model.device):
            logits = network(input_ids=ids.to(model.device), use_cache=False).logits[0, :-1]
        values = torch.log_softmax(logits.float().cpu(), dim=-1).gather(1, ids[0, 1:, None])[:, 0]
        found: list[float] = values.tolist()
        return found

    def require_agreement(self, trainer: Sequence[float], generator: Sequence[float], version: int, url: str) -> None:
        """Raise GeneratorDisagrees unless both have nearly the same log-probabilities of the tokens. url: names it."""
        pairs = list(zip(trainer, generator, strict=True))
        nats = sum(abs(one - other) for one, other in pairs) / len(pairs)
        distance = sum(abs(one - other) / (1 - one) for one, other in pairs) / len(pairs)
        if not distance <= self.max_distance:
            raise GeneratorDisagrees(
                f"the generator at {url} is {nats:.2g} nats a token away from the trainer ({distance:.2%} of the "
                f"log-probabilities, at most {self.max_distance:.1%}) after the update to version {version}: it has "
                "other weights, or computes them in another way. Is it the model of model.path, in the type of "
                "model.precision?"
            )
