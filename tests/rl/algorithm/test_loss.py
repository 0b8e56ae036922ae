"""Every formula against numbers worked out by hand."""

import math
from typing import Any

import pytest
import torch

from openenv.rl.algorithm import advantages, loss
from openenv.rl.algorithm.rewards import BlackJackReward
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.config import ConfigError, LossConfig, LossName

LOG2 = math.log(2.0)


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values)


def group_of(*rewards: float) -> Group:
    return Group(0, [Trajectory(seed=0, outcome="won", reward=reward) for reward in rewards])


def test_dr_grpo_advantages_are_rewards_minus_their_mean() -> None:
    assert advantages.dr_grpo([2.0, -1.0, -1.0, 2.0]) == [1.5, -1.5, -1.5, 1.5]


def test_grpo_advantages_are_divided_by_the_sample_standard_deviation() -> None:
    # mean 1, squared distances 1 + 1, over n - 1 = 1: std sqrt(2)
    assert advantages.grpo([0.0, 2.0]) == pytest.approx([-1 / (math.sqrt(2) + 1e-4), 1 / (math.sqrt(2) + 1e-4)])


def test_grpo_advantages_of_equal_rewards_are_zero() -> None:
    assert advantages.grpo([2.0, 2.0, 2.0]) == [0.0, 0.0, 0.0]


def test_rloo_advantages_compare_with_the_mean_of_the_others() -> None:
    assert advantages.rloo([3.0, 0.0, 0.0]) == [3.0, -1.5, -1.5]


def test_reinforce_plus_plus_normalises_over_the_whole_batch() -> None:
    # rewards 0 0 | 2 2: mean 1, sample std sqrt(4 / 3)
    scale = math.sqrt(4 / 3) + 1e-4

    of_groups = advantages.batch_advantages("reinforce++", [group_of(0.0, 0.0), group_of(2.0, 2.0)])

    assert of_groups == [[[pytest.approx(-1 / scale)]] * 2, [[pytest.approx(1 / scale)]] * 2]


def test_compute_advantages_leaves_invalid_episodes_out_of_the_mean() -> None:
    group = group_of(2.0, 0.0)
    group.trajectories.append(Trajectory(seed=0, outcome="invalid", reward=-100.0))

    assert advantages.ComputeAdvantages("dr_grpo").compute(group) == [1.0, -1.0]


def test_one_reward_has_no_advantage() -> None:
    with pytest.raises(ValueError, match="a group of one has no mean"):
        advantages.grpo([1.0])


def test_clipped_loss_takes_the_worse_of_ratio_and_clipped_ratio() -> None:
    lp, old = vector(LOG2, LOG2, -LOG2, -LOG2), vector(0.0, 0.0, 0.0, 0.0)

    losses = loss.clipped(lp, old, vector(1.0, -1.0, 1.0, -1.0), 0.2, 0.28)

    # ratios 2, 2, 1/2, 1/2: a gain stops at 1.28; a loss at ratio 2 counts in full; 1/2 of a gain; 0.8 of a loss
    assert losses.tolist() == pytest.approx([-1.28, 2.0, -0.5, 0.8])


def test_clipped_tokens_have_no_gradient() -> None:
    lp = vector(LOG2, -LOG2).requires_grad_()

    loss.clipped(lp, vector(0.0, 0.0), vector(1.0, -1.0), 0.2, 0.28).sum().backward()

    assert lp.grad is not None
    assert lp.grad.tolist() == [0.0, 0.0]


def test_gspo_has_one_ratio_for_all_tokens_of_a_sequence() -> None:
    lp, sequence = vector(2e-4, 0.0, 1.0, 1.0), torch.tensor([0, 0, 1, 1])

    losses = loss.gspo(lp, torch.zeros(4), vector(1.0, 1.0, 1.0, 1.0), sequence, 3e-4, 4e-4)

    # means of the log ratios: 1e-4 (inside the clip range) and 1 (clipped to 1 + 4e-4)
    assert losses.tolist() == pytest.approx([-math.exp(1e-4)] * 2 + [-1.0004] * 2)


def test_cispo_keeps_the_gradient_of_a_clipped_token() -> None:
    lp = vector(LOG2).requires_grad_()

    losses = loss.cispo(lp, vector(0.0), vector(3.0), 0.2, 0.28)
    losses.sum().backward()

    assert losses.tolist() == pytest.approx([-1.28 * 3.0 * LOG2])
    assert lp.grad is not None
    assert lp.grad.tolist() == pytest.approx([-1.28 * 3.0])


def test_rloo_loss_is_the_weighted_log_probability() -> None:
    assert loss.reinforce(vector(-2.0), vector(0.5)).tolist() == [1.0]


@pytest.mark.parametrize(("kind", "expected"), [("k1", -LOG2), ("k2", LOG2**2 / 2), ("k3", 2.0 - LOG2 - 1.0)])
def test_divergence_estimators(kind: str, expected: float) -> None:
    # the reference finds the token twice as likely: d = ln 2
    assert loss.divergence(kind, vector(-LOG2), vector(0.0)).tolist() == pytest.approx([expected])  # type: ignore[arg-type]


def importance(log_ratios: list[float], sequence: list[int], **settings: Any) -> list[float]:
    """The weights of tokens with these log ratios of trainer and generator."""
    old = vector(*log_ratios).requires_grad_()
    config = LossConfig(**settings)
    weights = loss.importance_weights(config, old, torch.zeros(len(log_ratios)), torch.tensor(sequence))
    assert not weights.requires_grad
    return weights.tolist()


def test_importance_weights_are_truncated() -> None:
    assert importance([0.0, 2 * LOG2, -LOG2], [0, 1, 2]) == pytest.approx([1.0, 2.0, 0.5])


def test_the_tokens_of_a_sequence_may_share_the_product_of_their_ratios() -> None:
    ratios = [LOG2, -2 * LOG2, LOG2, LOG2]  # 2 * 1/4; 2 * 2, truncated

    weights = importance(ratios, [0, 0, 1, 1], importance_level="sequence", importance_cap=3.0)

    assert weights == pytest.approx([0.5, 0.5, 3.0, 3.0])


def test_tokens_that_trainer_and_generator_disagree_about_are_left_out() -> None:
    ratios = [math.log(ratio) for ratio in (0.4, 0.6, 4.0, 6.0)]

    weights = importance(ratios, [0, 0, 0, 0], importance_cap=5.0, mask_tokens=(0.5, 5.0))

    assert weights == pytest.approx([0.0, 0.6, 4.0, 0.0])


def test_sequences_that_they_disagree_about_are_left_out_whole() -> None:
    # geometric means: sqrt(4 / 4) = 1, and sqrt(2 * 1)
    weights = importance([2 * LOG2, -2 * LOG2, LOG2, 0.0], [0, 0, 1, 1], mask_sequences=(0.9, 1.1))

    assert weights == pytest.approx([2.0, 0.25, 0.0, 0.0])


@pytest.mark.parametrize("limits", [(1.1, 2.0), (0.5, 0.9), (-1.0, 2.0)])
def test_a_mask_keeps_what_both_agree_about(limits: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match=r"loss\.mask_tokens=.* 1 between them"):
        LossConfig(mask_tokens=limits)


def test_token_weights_say_over_what_the_mean_is_taken() -> None:
    episode = torch.tensor([0, 0, 0, 1])  # three tokens, then one

    assert loss.token_weights("grpo", episode, 2, 1.0).tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    assert loss.token_weights("dapo", episode, 2, 1.0).tolist() == pytest.approx([1 / 4] * 4)
    assert loss.token_weights("dr_grpo", episode, 2, 5.0).tolist() == pytest.approx([1 / 10] * 4)


def test_clip_fractions_count_only_what_clipping_changes() -> None:
    lp, advantage = vector(LOG2, LOG2, -LOG2, 0.0), vector(1.0, -1.0, -1.0, 1.0)

    assert loss.clip_fractions(LossConfig(), lp, torch.zeros(4), advantage, torch.arange(4)) == (0.25, 0.25)


def test_clip_fractions_are_of_what_each_loss_clips() -> None:
    lp, old, advantage = vector(LOG2, LOG2, -LOG2, -LOG2), torch.zeros(4), vector(1.0, -1.0, 1.0, -1.0)

    def fractions(name: LossName, sequence: list[int]) -> tuple[float, float]:
        config = LossConfig(name=name)
        return loss.clip_fractions(config, lp, old, advantage, torch.tensor(sequence))

    assert fractions("grpo", [0, 1, 2, 3]) == (0.25, 0.25)
    assert fractions("cispo", [0, 1, 2, 3]) == (0.5, 0.5), "its weights are clipped whatever the advantage is"
    assert fractions("gspo", [0, 1, 0, 1]) == (0.0, 0.0), "the ratios of both sequences are 1"
    assert fractions("rloo", [0, 1, 2, 3]) == (0.0, 0.0), "it has no ratio"


@pytest.mark.parametrize("name", ["grpo", "gspo"])
def test_clip_fractions_are_those_of_the_tokens_without_a_gradient(name: LossName) -> None:
    config = LossConfig(name=name, clip_low=0.1, clip_high=0.15)
    generator = torch.Generator().manual_seed(0)
    lp, advantage = 0.3 * torch.randn(2, 40, generator=generator)
    sequence = torch.randint(0, 12, (40,), generator=generator)

    losses = loss.token_losses(config, lp.requires_grad_(), torch.zeros(40), advantage, sequence)
    still = [not torch.autograd.grad(one, lp, retain_graph=True)[0].any() for one in losses]

    fractions = loss.clip_fractions(config, lp, torch.zeros(40), advantage, sequence)
    assert 0 < sum(still) < 40
    assert sum(fractions) == pytest.approx(sum(still) / 40)


@pytest.mark.parametrize(("name", "expected"), [("grpo", (-1.28, 0.8)), ("gspo", (-1.0004, 0.9997))])
def test_each_loss_is_clipped_as_its_paper_has_it_unless_configured_otherwise(
    name: LossName, expected: tuple[float, float]
) -> None:
    lp, old, advantage, sequence = vector(LOG2, -LOG2), torch.zeros(2), vector(1.0, -1.0), torch.tensor([0, 1])

    assert loss.token_losses(LossConfig(name=name), lp, old, advantage, sequence).tolist() == pytest.approx(expected)

    configured = LossConfig(name=name, clip_low=0.1, clip_high=0.05)
    assert loss.token_losses(configured, lp, old, advantage, sequence).tolist() == pytest.approx([-1.05, 0.9])


def test_a_limit_that_a_loss_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"loss\.clip_high=0\.2.*rloo"):
        LossConfig(name="rloo", clip_high=0.2)
    with pytest.raises(ConfigError, match=r"loss\.clip_low=-0\.1"):
        LossConfig(clip_low=-0.1)


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo"])
def test_every_loss_raises_the_probability_of_a_good_token(name: str) -> None:
    lp = vector(-1.0, -1.0).requires_grad_()
    config = LossConfig(name=name)  # type: ignore[arg-type]

    loss.token_losses(config, lp, vector(-1.0, -1.0), vector(1.0, -1.0), torch.tensor([0, 1])).sum().backward()

    assert lp.grad is not None
    assert lp.grad[0] < 0 < lp.grad[1]


@pytest.mark.parametrize(("game_reward", "expected"), [(1.0, 2.0), (0.0, 0.5), (-1.0, -1.0)])
def test_the_blackjack_reward_of_the_tutorial(game_reward: float, expected: float) -> None:
    assert BlackJackReward().evaluate_response("cards 10 6 dealer 9", "hit", game_reward) == expected
