"""Runs the tokens that all sequences of a batch begin with once, instead of once for each.

The system message alone is half of a short prompt. Sequences attend to the keys and values of the shared tokens, so the
results are the same but for rounding, and gradients flow through them.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from openenv.rl.models.divided_weights import is_sharded

_LEAST = 16  # shorter ones are not worth a forward pass of their own


def shared_length(sequences: Sequence[Sequence[int]], most: int) -> int:
    """Number of tokens, at most `most`, that all sequences begin with; 0 if they are not worth sharing."""
    if len(sequences) < 2 or most < _LEAST:
        return 0
    rows = [tuple(sequence) for sequence in sequences]
    ends = zip(min(rows), max(rows), strict=False)  # what these two share, all between them share
    shared = min(most, sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], ends)))
    return shared if shared >= _LEAST else 0


def can_share(model: PreTrainedModel) -> bool:
    """Whether each layer of the model keeps the keys and values of all tokens, and nothing computes them again.

    A model whose weights are divided among processes runs equally often in each, whatever their sequences share.
    """
    cache: Any = DynamicCache(config=model.config)
    has_attention_alone = bool(cache.layers) and all(type(layer) is DynamicLayer for layer in cache.layers)
    return has_attention_alone and not model.is_activation_checkpointing and not is_sharded(model)


def prefix_cache(model: PreTrainedModel, prefix: Tensor, num_rows: int) -> Any:
    """The cache of sequences that begin with `prefix`, [1, length], for as many rows. Use it where `can_share`."""
    cache: Any = DynamicCache(config=model.config)
    model.base_model(input_ids=prefix, past_key_values=cache, use_cache=True)
    for layer in cache.layers:  # views, whose gradients are sums in a fixed order
        layer.keys, layer.values = (part.expand(num_rows, -1, -1, -1) for part in (layer.keys, layer.values))
    return cache
