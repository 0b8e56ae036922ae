"""A collapse is named within ten steps of its beginning, with its cause and the setting; learning is none."""

import math
from typing import Any

import pytest

from openenv.rl.algorithm.trajectory import Group, Trajectory, Turn
from openenv.rl.config import Config
from openenv.rl.signals.collapse import SIGNS, CollapseWatch, look_metrics
from tests.rl.echo_game import echo_config

HEALTHY = {
    "reward": -0.4,
    "entropy": 0.6,
    "frac_reward_zero_std": 0.4,
    "mutual_information": 0.1,
    "top_action_share": 0.6,
    "num_situations": 20.0,
    "episodes/unparseable_ratio": 0.0,
    "step_kl": 0.02,
}
COLLAPSES: dict[str, dict[str, Any]] = {
    "no legal reply": {"episodes/unparseable_ratio": 1.0, "mutual_information": None, "top_action_share": None},
    "one action": {"mutual_information": 0.0, "top_action_share": 1.0},
    "entropy": {"entropy": 0.01, "frac_reward_zero_std": 1.0},
    "step too large": {"step_kl": 1.5},
}


def watched(*rows: dict[str, Any], config: Config | None = None) -> list[str | None]:
    watch = CollapseWatch(config or echo_config())
    return [watch.add({**HEALTHY, **row}) for row in rows]


@pytest.mark.parametrize("name", COLLAPSES)
def test_each_collapse_is_named_once_within_ten_steps(name: str) -> None:
    warnings = watched(*[{}] * 12, *[COLLAPSES[name]] * 10)

    assert not any(warnings[:12])
    (warning,) = filter(None, warnings)
    assert f"collapsed ({name})" in warning


def test_a_slow_fall_into_one_action_is_named_before_it_is_complete() -> None:
    """Shares and information of blackjack with SmolLM2 after supervised random play, without a floor."""
    shares = [0.55, 0.6, 0.61, 0.71, 0.73, 0.8, 0.87, 0.89, 0.9, 0.92, 0.94, 0.95, 0.94, 0.97, 0.97, 0.96, 0.97, 0.97]
    information = [0.0, 0.0, 0.0, 0.0, 0.0, 0.008, 0.01, 0.003, 0.026, 0.0, 0.0, 0.002, 0.0, 0.005, 0.001, 0.006, 0, 0]
    for change, is_named in ((-0.02, True), (0.02, False)):  # the demo comes back from there
        warnings = watched(
            *(
                {"top_action_share": share, "mutual_information": seen, "entropy": 0.4 + change * step}
                for step, (share, seen) in enumerate(zip(shares, information, strict=True))
            )
        )
        assert ("collapsed (one action)" in str(warnings[-1])) is is_named
        assert not any(warnings[:-1])


def test_a_policy_that_the_floor_holds_swings_and_has_not_collapsed() -> None:
    """Shares of kuhn_poker with SmolLM2, which learns to look from step 40 on."""
    shares = [0.943, 0.95, 0.96, 0.97, 0.978, 0.97, 0.96, 0.91, 0.847, 0.95, 0.95, 0.96, 0.976, 0.98, 0.96, 0.95, 0.81]
    assert not any(watched(*[{"top_action_share": share, "mutual_information": 0.001} for share in shares]))


def test_every_sign_has_a_case_and_names_a_setting() -> None:
    settings = ("sampling.", "loss.", "trainer.", "max_res_tokens")

    assert {sign.name for sign in SIGNS} == set(COLLAPSES)
    for sign in SIGNS:
        assert any(key in sign.remedy(echo_config()) for key in settings)


def test_a_policy_that_has_become_better_may_be_sure_of_itself() -> None:
    assert not any(watched(*[{}] * 12, *[{**COLLAPSES["entropy"], "reward": 1.5}] * 10))


@pytest.mark.parametrize(("reward", "nothing"), [(-0.3, True), (1.5, False)])
def test_one_action_always_is_nothing_learned_unless_it_is_better_than_the_beginning(
    reward: float, nothing: bool
) -> None:
    watch = CollapseWatch(echo_config())
    for row in [*[{}] * 12, *[{**COLLAPSES["one action"], "reward": reward}] * 10]:
        watch.add({**HEALTHY, **row})

    assert watch.has_learned_nothing is nothing


def test_a_game_with_one_situation_has_nothing_to_look_at() -> None:
    assert not any(watched(*[{}] * 12, *[{**COLLAPSES["one action"], "num_situations": 1.0}] * 10))


def test_a_sign_that_goes_away_is_none() -> None:
    assert not any(watched(*[{}] * 6, *[{"step_kl": 1.5}, {}] * 8))


def test_a_policy_that_passes_through_one_action_as_that_of_the_demo_does_has_not_collapsed() -> None:
    assert not any(watched(*[{}] * 8, *[COLLAPSES["one action"]] * 5, *[{}] * 10))


def group(*turns: tuple[str, str]) -> Group:
    played = [
        Trajectory(seed=0, outcome="won", turns=[Turn("", action, situation, action)]) for situation, action in turns
    ]
    return Group(0, played)


def test_actions_that_follow_the_situation_share_its_information() -> None:
    metrics = look_metrics([group(*[("low", "hit"), ("high", "stand")] * 500)])

    assert metrics["mutual_information"] == pytest.approx(math.log(2), abs=0.01)
    assert metrics["top_action_share"] == 0.5
    assert metrics["num_situations"] == 2


def test_actions_that_ignore_the_situation_share_none() -> None:
    pairs = [(f"total {number % 40}", ("hit", "stand")[(number // 40) % 2]) for number in range(400)]

    assert look_metrics([group(*pairs)])["mutual_information"] == pytest.approx(0.0, abs=0.01)


def test_without_a_legal_action_nothing_is_known() -> None:
    assert look_metrics([Group(0, [Trajectory(seed=0, outcome="unparseable")])])["mutual_information"] is None
