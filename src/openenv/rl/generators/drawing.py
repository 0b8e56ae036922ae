"""Chooses tokens: the likeliest, or the inverse of a cumulative distribution at a random number.

The draw sums blocks of the vocabulary first, so that no cumulative sum is longer than `_BRANCH`: PyTorch's sum with a
fixed order takes the square of its length in memory on CUDA.
"""

import torch
from torch import Tensor

_BRANCH = 64


def chosen(logprobs: Tensor, rows: Tensor, numbers: Tensor | None, temperature: float) -> Tensor:
    """The tokens of replies, [R]: the likeliest ones at temperature 0, otherwise drawn.

    Args:
        logprobs: of the contexts, [contexts, vocabulary].
        rows: the context of each reply, [R].
        numbers: uniform in [0, 1), one a reply, [R], float64; None at temperature 0.
    """
    if numbers is None:
        return logprobs.argmax(dim=-1)[rows]
    return drawn(torch.softmax(logprobs.double() / temperature, dim=-1), rows, numbers)


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
        there = block[:, None]
        begin = (ends.gather(1, there) - sums.gather(1, there))[:, 0]
        rest = (rest - begin).clamp(min=0)  # a begin that is rounded up would lie before the block
        left, rows = left[rows, block], torch.arange(len(rows), device=rows.device)
        size //= _BRANCH
