"""Draws tokens: the inverse of a cumulative distribution at a random number, found block by block.

Blocks of the vocabulary are summed first, so that no cumulative sum is longer than `_BRANCH`: PyTorch's sum with a
fixed order takes the square of its length in memory on CUDA.
"""

import torch
from torch import Tensor

_BRANCH = 64


def drawn(probabilities: Tensor, rows: Tensor, numbers: Tensor) -> Tensor:
    """The tokens, [R]: the first whose cumulative probability exceeds the number. None has the probability 0.

    Args:
        probabilities: [contexts, vocabulary], float64; each row sums to 1.
        rows: the context of each token, [R].
        numbers: uniform in [0, 1), [R], float64.
    """
    count, size = probabilities.shape[1], 1
    while size * _BRANCH < count:
        size *= _BRANCH
    gap = -count % size
    left = torch.nn.functional.pad(probabilities, (0, gap)) if gap else probabilities
    tokens, rest = torch.zeros_like(rows), numbers
    while True:
        left = left.view(len(left), -1, size)
        sums = left.sum(dim=-1)[rows]
        ends = sums.cumsum(dim=-1)
        last = torch.where(sums > 0, torch.arange(sums.shape[1], device=rows.device), 0).amax(dim=-1)
        block = torch.minimum(torch.searchsorted(ends, rest.unsqueeze(1), right=True)[:, 0], last)
        tokens = tokens + block * size
        if size == 1:
            return tokens
        chosen = block[:, None]
        rest = rest - (ends.gather(1, chosen) - sums.gather(1, chosen))[:, 0]
        left, rows = left[rows, block], torch.arange(len(rows), device=rows.device)
        size //= _BRANCH
