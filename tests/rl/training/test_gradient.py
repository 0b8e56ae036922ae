"""What the trainer's gradient consists of: rows that have none are not run, and stale data is weighted."""

import math
import random
from typing import Any

import pytest
import torch

from openenv.rl.algorithm.loss import divergence
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.training.trainer import ReferenceModel, Trainer
from tests.rl.algorithm.test_batch import episode
from tests.rl.echo_game import WORDS, echo_chat, echo_config, echo_generator

pytestmark = pytest.mark.process


def trainer_and_groups(rewards: list[float], staleness: float = 0.0, **loss: Any) -> tuple[Trainer, list[Group]]:
    """Groups of four one-turn episodes with these rewards.

    staleness: the generator's log-probabilities are lower by it than those of the weights.
    """
    chat = echo_chat()
    config = echo_config(trainer={"max_grad_norm": 1e9}, loss=loss)
    generator = echo_generator(config, chat)
    reference = ReferenceModel(echo_generator(config, chat, seed=1).model, "float32")
    rng = random.Random(0)
    prompts = [chat.prompt([{"role": "user", "content": rng.choice(WORDS)}]) for _ in rewards]
    segments = generator.generate(prompts, [random.Random(i) for i in range(len(rewards))])
    for segment in segments:
        segment.logprobs[segment.sampled] -= staleness
    trajectories = [episode(reward, segment) for reward, segment in zip(rewards, segments, strict=True)]
    groups = [Group(i, trajectories[4 * i : 4 * i + 4]) for i in range(len(rewards) // 4)]
    return Trainer(generator.model, reference, config, chat.pad_id), groups


def rows_run(trainer: Trainer) -> list[int]:
    rows: list[int] = []
    trainer.model.register_forward_pre_hook(
        lambda _module, _args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    trainer.model.base_model.register_forward_pre_hook(
        lambda _module, _args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    return rows


MIXED = [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("name", ["dr_grpo", "grpo", "dapo"])
def test_rows_without_a_gradient_are_not_run_and_the_gradient_stays(name: str) -> None:
    whole, groups = trainer_and_groups(MIXED, name=name, kl_weight=1e-12, kl_weight_end=1e-12)
    part, _ = trainer_and_groups(MIXED, name=name, kl_weight=0.0)
    all_rows, some_rows = rows_run(whole), rows_run(part)

    expected, measured = whole.step(groups, 0.0)["grad_norm"], part.step(groups, 0.0)["grad_norm"]

    assert measured == pytest.approx(expected, rel=1e-4)
    assert max(some_rows) < max(all_rows)


def test_a_batch_without_a_gradient_changes_nothing() -> None:
    trainer, groups = trainer_and_groups([1.0] * 8, kl_weight=0.0)
    before = [weights.clone() for weights in trainer.model.parameters()]
    rows = rows_run(trainer)

    metrics = [trainer.step(groups, 0.0), trainer.step([], 0.0)]

    assert rows == []
    assert [row["grad_norm"] for row in metrics] == [0.0, 0.0]
    assert trainer.step_count == 2
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))


@pytest.mark.parametrize("kl", ["k2", "k3"])
def test_the_divergence_on_stale_data_has_the_importance_weights(kl: str) -> None:
    equal = [1.0] * 8  # no advantage: the gradient is that of the divergence alone
    fresh, groups = trainer_and_groups(equal, kl=kl, kl_weight=1.0)
    stale, stale_groups = trainer_and_groups(equal, staleness=math.log(1.5), kl=kl, kl_weight=1.0)

    once, weighted = fresh.step(groups, 0.0)["grad_norm"], stale.step(stale_groups, 0.0)["grad_norm"]

    assert weighted == pytest.approx(1.5 * once, rel=1e-4)


@pytest.mark.parametrize(("scale", "is_rewarded"), [(0.0, True), (100.0, False)], ids=["uncertain", "certain"])
def test_entropy_counts_up_to_that_of_the_reference(scale: float, is_rewarded: bool) -> None:
    trainer, groups = trainer_and_groups([1.0] * 8, kl_weight=1e-12, entropy_weight=1.0)
    assert trainer.reference is not None
    trainer.reference.model.get_output_embeddings().weight.mul_(scale)

    assert (trainer.step(groups, 0.0)["grad_norm"] > 1e-6) == is_rewarded


def test_a_negative_weight_of_the_entropy_is_as_strong_as_a_positive_one() -> None:
    norms = []
    for weight in (1.0, -1.0):
        trainer, groups = trainer_and_groups([1.0] * 8, kl_weight=0.0, entropy_weight=weight)
        norms.append(trainer.step(groups, 0.0)["grad_norm"])

    assert norms[0] > 1e-6
    assert norms[1] == pytest.approx(norms[0], rel=1e-4)


@pytest.mark.parametrize(("kl", "reverse"), [("k2", False), ("k3", True)])
def test_which_divergence_the_gradient_of_each_estimator_is_that_of(kl: Any, reverse: bool) -> None:
    logits = torch.tensor([0.3, -1.0, 0.8], requires_grad=True)
    policy, reference = torch.log_softmax(logits, 0), torch.log_softmax(torch.tensor([1.0, 0.0, -0.5]), 0)

    estimated = (policy.exp().detach() * divergence(kl, policy, reference)).sum()
    exact = (reference.exp() * (reference - policy)).sum() if reverse else (policy.exp() * (policy - reference)).sum()

    gradients = [torch.autograd.grad(value, logits, retain_graph=True)[0] for value in (estimated, exact)]
    assert torch.allclose(*gradients, atol=1e-6)
