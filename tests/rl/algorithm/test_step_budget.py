"""A step is as long as its budget allows, for weights of any scale, and never takes the entropy below its floor."""

import math

import pytest
import torch

from openenv.rl.algorithm.step_budget import PolicyChange, StepBudget
from openenv.rl.models.language_model import dither
from tests.rl.models.small_models import small_model


def limited(
    budget: StepBudget, *, curvature: float, floor: float = 0.0, slope: float = 0.0, entropy: float = 0.8
) -> tuple[float, PolicyChange]:
    """The length of a step of 1 after its limit. The divergence is curvature times length squared.

    The entropy falls by slope times length."""
    weights, before = [torch.ones(1)], [torch.zeros(1)]

    def measure() -> PolicyChange:
        length = float(weights[0])
        return PolicyChange(curvature * length**2, entropy, entropy - slope * length)

    change = budget.limit(weights, before, measure, scale=1.0, floor=floor)
    return float(weights[0]), change


@pytest.mark.parametrize("curvature", [0.5, 5.0, 500.0])
def test_a_step_beyond_its_budget_is_shortened_to_it(curvature: float) -> None:
    length, change = limited(StepBudget(0.02), curvature=curvature)

    assert length == pytest.approx(math.sqrt(0.02 / curvature), rel=0.01)
    assert change.kl == pytest.approx(0.02, rel=0.01)


def test_a_step_within_its_budget_is_made_whole_and_the_next_may_be_longer() -> None:
    budget = StepBudget(0.02)

    length, _ = limited(budget, curvature=0.001)

    assert length == 1.0
    assert budget.length > 1.0


def test_the_next_step_begins_at_the_length_that_was_accepted() -> None:
    budget = StepBudget(0.02)

    length, _ = limited(budget, curvature=50.0)

    assert budget.length == pytest.approx(length)


def test_a_step_that_measures_no_number_is_shortened() -> None:
    length, _ = limited(StepBudget(0.02), curvature=math.inf)

    assert length < 1e-3


def test_a_step_does_not_take_the_entropy_far_below_its_floor() -> None:
    budget = StepBudget(0.02)

    length, change = limited(budget, curvature=1e-6, floor=0.8, slope=0.79)

    assert change.entropy_after >= 0.6 * 0.8 * 0.8
    assert length < 1.0
    assert budget.length >= 1.0, "the next step begins at the length that its divergence allows"


def test_the_floor_is_a_part_of_the_entropy_before_the_first_step() -> None:
    length, _ = limited(StepBudget(0.02), curvature=1e-6, floor=0.9, slope=0.04, entropy=0.15)

    assert length == 1.0  # three fifths of 0.9 would be above what is left, 0.11


def test_far_below_the_floor_a_small_fall_does_not_shorten_a_step() -> None:
    budget = StepBudget(0.02)
    limited(budget, curvature=1e-6, floor=0.9)

    assert limited(budget, curvature=1e-6, floor=0.9, slope=0.001, entropy=0.1)[0] == 1.0
    assert limited(budget, curvature=1e-6, floor=0.9, slope=0.05, entropy=0.1)[0] < 1.0


def test_the_bonus_follows_the_distance_to_the_floor() -> None:
    low, high = StepBudget(0.02), StepBudget(0.02)
    for budget, entropy in ((low, 0.4), (high, 0.8)):
        limited(budget, curvature=1.0, floor=0.9)
        before = budget.bonus
        limited(budget, curvature=1.0, floor=0.9, entropy=entropy)

        assert (budget.bonus > before) is (budget is low)


def test_a_restored_budget_goes_on_where_it_was() -> None:
    budget, restored = StepBudget(0.02), StepBudget(0.02)
    limited(budget, curvature=50.0, floor=0.9)

    restored.load_state_dict(budget.state_dict())

    assert (restored.length, restored.bonus) == (budget.length, budget.bonus)


def test_dithered_weights_round_to_the_same_numbers_and_small_steps_change_a_share_of_them() -> None:
    model, _ = small_model("Llama")
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(weights.bfloat16().float())  # as a pretrained model is stored
    stored = [weights.detach().clone() for weights in model.parameters()]
    step = 1e-5

    dither(model, seed=0)

    changed = 0
    for weights, old in zip(model.parameters(), stored, strict=True):
        assert torch.equal(weights.bfloat16().float(), old)
        if weights.dim() < 2:  # not in a matrix product
            continue
        changed += int(((weights + step).bfloat16().float() != old).sum())
        assert not bool(((old + step).bfloat16().float() != old)[old.abs() > 0.01].any())
    assert changed > 0


def test_equal_seeds_dither_alike() -> None:
    models = [small_model("Llama")[0] for _ in range(2)]
    for model in models:
        dither(model, seed=3)

    pairs = zip(models[0].parameters(), models[1].parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
