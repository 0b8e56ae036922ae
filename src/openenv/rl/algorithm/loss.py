"""Policy losses, per token. All take flat vectors over the sampled tokens of a batch.

logprobs, old_logprobs, advantages: [N]; sequence: [N], the number of the sequence that each token belongs to.
old_logprobs are those of the weights that the step starts from; gradients flow through logprobs alone.
"""

import torch
from torch import Tensor

from openenv.rl.config import KLName, LossConfig, LossName


def token_losses(
    config: LossConfig, logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, sequence: Tensor
) -> Tensor:
    """The policy's loss of each token, [N], before weighting and without the divergence."""
    if config.name == "cispo":
        return cispo(logprobs, old_logprobs, advantages, *config.clip)
    if config.name == "gspo":
        return gspo(logprobs, old_logprobs, advantages, sequence, *config.clip)
    if config.name == "rloo":
        return reinforce(logprobs, advantages)
    return clipped(logprobs, old_logprobs, advantages, *config.clip)


def clipped(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """-min(ratio A, clip(ratio, 1 - low, 1 + high) A): PPO arXiv:1707.06347, GRPO arXiv:2402.03300 (low = high = 0.2),
    DAPO's clip-higher arXiv:2503.14476 (0.2, 0.28)."""
    ratio = torch.exp(logprobs - old_logprobs)
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def gspo(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, sequence: Tensor, low: float, high: float
) -> Tensor:
    """The clipped loss with one ratio per sequence, exp of the mean of its log ratios, arXiv:2507.18071 (low, high =
    0.0003, 0.0004)."""
    means = _sequence_means(logprobs - old_logprobs, sequence)
    return clipped(means, torch.zeros_like(logprobs), advantages, low, high)


def _sequence_means(values: Tensor, sequence: Tensor) -> Tensor:
    """For each token the mean over its sequence, [N]."""
    sums = _sequence_sums(values, sequence)
    return (sums / torch.bincount(sequence, minlength=len(sums)).clamp(min=1))[sequence]


def _sequence_sums(values: Tensor, sequence: Tensor) -> Tensor:
    """The sum of each sequence, by its number."""
    sums = torch.zeros(int(sequence.max()) + 1, dtype=values.dtype, device=values.device)
    return sums.index_add(0, sequence, values)


def cispo(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """-stopgrad(clip(ratio, 1 - low, 1 + high)) A lp: no token loses its gradient, arXiv:2506.13585."""
    ratio = torch.exp(logprobs.detach() - old_logprobs)
    return -ratio.clamp(1 - low, 1 + high) * advantages * logprobs


def reinforce(logprobs: Tensor, advantages: Tensor) -> Tensor:
    """-A lp, the loss of RLOO, arXiv:2402.14740."""
    return -advantages * logprobs


def divergence(kind: KLName, logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """Estimate of KL(policy, reference) from each sampled token, [N] (Schulman 2020, "Approximating KL divergence").

    With d = reference - policy: k1 = -d (no bias), k2 = d^2 / 2, k3 = exp(d) - d - 1 (no bias, never negative).

    The gradient of an estimate is not an estimate of the gradient. Over samples of the policy, that of k1 is 0 on
    average, so that LossConfig refuses it; that of k2 is the gradient of KL(policy, reference); that of k3 is the
    gradient of KL(reference, policy).
    """
    d = reference_logprobs - logprobs
    if kind == "k1":
        return -d
    return d.square() / 2 if kind == "k2" else torch.exp(d) - d - 1


def importance_weights(
    config: LossConfig, old_logprobs: Tensor, generator_logprobs: Tensor, sequence: Tensor
) -> Tensor:
    """The weight of each token's loss where trainer and generator give it unlike probabilities, [N], without gradient:
    the data is stale, or the two round differently. With ratio = exp(lp_old - lp_generator):

    level token: min(ratio, cap), truncated importance sampling (Yao et al. 2025, "Your Efficient RL Framework Secretly
    Brings You Off-Policy RL Training"). level sequence: the same of the product of the ratios of a sequence (Liu et al.
    2025, "When Speed Kills Stability").
    0 for a token whose ratio is outside mask_tokens (IcePop, arXiv:2510.18855: 0.5 to 5), and for a sequence whose
    ratios have a geometric mean outside mask_sequences (Liu et al. 2025; usual is 0.99 to 1.01).
    """
    log_ratio = (old_logprobs - generator_logprobs).detach()
    whole = _sequence_sums(log_ratio, sequence)[sequence] if config.importance_level == "sequence" else log_ratio
    weights = torch.exp(whole).clamp(max=config.importance_cap)
    if config.mask_tokens is not None:
        weights = weights * _is_within(torch.exp(log_ratio), config.mask_tokens)
    if config.mask_sequences is not None:
        weights = weights * _is_within(torch.exp(_sequence_means(log_ratio, sequence)), config.mask_sequences)
    return weights


def _is_within(ratios: Tensor, limits: tuple[float, float]) -> Tensor:
    return (ratios >= limits[0]) & (ratios <= limits[1])


def token_weights(name: LossName, episode: Tensor, num_episodes: int, constant_length: float) -> Tensor:
    """The weight of each token's loss in the sum, [N]. episode: [N], the number of its episode.

    grpo and gspo: mean over an episode's tokens, then over episodes. dapo and cispo: mean over all tokens.
    dr_grpo and rloo: sum over an episode's tokens divided by a constant, then mean over episodes.
    """
    if name in ("grpo", "gspo"):
        lengths = torch.bincount(episode, minlength=num_episodes)
        return 1.0 / (lengths[episode] * num_episodes)
    if name in ("dapo", "cispo"):
        return torch.full_like(episode, 1.0 / max(1, len(episode)), dtype=torch.float32)
    return torch.full_like(episode, 1.0 / (constant_length * num_episodes), dtype=torch.float32)


def clip_fractions(
    config: LossConfig, logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, sequence: Tensor
) -> tuple[Tensor, Tensor]:
    """The fractions of tokens whose ratio the loss clips below and above.

    The clipped losses count a token below only for A < 0 and above only for A > 0, where clipping has an effect; cispo,
    which multiplies with the ratio, counts both for any A. Both fractions are zero with rloo.
    """
    if config.name == "rloo":
        return logprobs.new_zeros(()), logprobs.new_zeros(())
    log_ratio = logprobs.detach() - old_logprobs
    ratio = torch.exp(_sequence_means(log_ratio, sequence) if config.name == "gspo" else log_ratio)
    below, above = ratio < 1 - config.clip[0], ratio > 1 + config.clip[1]
    if config.name != "cispo":
        below, above = below & (advantages < 0), above & (advantages > 0)
    return below.float().mean(), above.float().mean()
