"""How far recorded log-probabilities are from a model's own."""

from typing import Any

import torch

from openenv.rl.algorithm.segment import Segment


def distance(model: Any, segments: list[Segment]) -> float:
    """The largest difference between recorded log-probabilities and those of the model's own forward."""
    found = 0.0
    for segment in segments:
        with torch.no_grad():
            table = torch.log_softmax(model(torch.tensor([segment.token_ids.tolist()])).logits[0], dim=-1)
        own = table[:-1].gather(1, torch.tensor(segment.token_ids[1:].tolist())[:, None])[:, 0]
        mask = torch.tensor(segment.sampled[1:])
        found = max(found, float((own[mask] - torch.tensor(segment.logprobs[1:])[mask]).abs().max()))
    return found
