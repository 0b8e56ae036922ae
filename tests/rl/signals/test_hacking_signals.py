"""What the replies of a step look like, and when that is a sign of reward hacking."""

from typing import Any

import pytest

from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.signals.hacking_signals import WINDOW, DriftWatch, completion_metrics, repetition

END = 9
PROMPT = (7, 7)


def episode(*replies: tuple[int, ...], outcome: Any = "won") -> Trajectory:
    """An episode that is one sequence: a prompt before each reply."""
    tokens = [token for reply in replies for token in (*PROMPT, *reply)]
    sampled = [is_sampled for reply in replies for is_sampled in (*(False,) * len(PROMPT), *(True,) * len(reply))]
    segment = Segment(tuple(tokens), tuple(sampled), (0.0,) * len(tokens), 0)
    return Trajectory(seed=0, segments=[segment], outcome=outcome)


@pytest.mark.finding("remedies are true")
def test_a_completion_is_one_reply_and_is_clipped_without_an_end_token() -> None:
    group = Group(0, [episode((1, END), (1, 2, 3, 4)), episode((1, 2, END), outcome="unparseable")])

    metrics = completion_metrics([group], {END})

    assert metrics["completions/mean_length"] == 3
    assert (metrics["completions/min_length"], metrics["completions/max_length"]) == (2, 4)
    assert metrics["completions/clipped_ratio"] == pytest.approx(1 / 3)
    assert metrics["completions/mean_terminated_length"] == 2.5
    assert metrics["completions/max_terminated_length"] == 3
    assert metrics["episodes/unparseable_ratio"] == 0.5


def test_invalid_episodes_do_not_count_and_nothing_has_no_metrics() -> None:
    group = Group(0, [episode((1, END), outcome="invalid")])

    assert set(completion_metrics([group], {END}).values()) == {None}


def test_repetition_is_the_share_of_n_grams_that_occurred_before() -> None:
    assert repetition([1, 2, 3, 4, 5]) == 0
    assert repetition([1, 2, 3, 1, 2, 3]) == 1 - 3 / 4
    assert repetition([1] * 102) == 0.99
    assert repetition([1, 2]) is None


def warnings_of(rows: list[dict[str, Any]]) -> list[str]:
    watch = DriftWatch()
    return [text for row in rows if (text := watch.add(row)) is not None]


def rows_of(first: dict[str, float], latest: dict[str, float]) -> list[dict[str, Any]]:
    return [first] * WINDOW + [latest] * 3 * WINDOW


CALM = {
    "reward": 0.1,
    "completions/mean_length": 20.0,
    "completions/clipped_ratio": 0.1,
    "completions/repetition": 0.1,
    "episodes/unparseable_ratio": 0.1,
    "entropy": 1.0,
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("completions/mean_length", 40.0),
        ("completions/mean_length", 10.0),
        ("completions/clipped_ratio", 0.31),
        ("completions/repetition", 0.31),
        ("episodes/unparseable_ratio", 0.31),
    ],
)
def test_a_signal_that_drifts_while_reward_rises_is_warned_of_once(key: str, value: float) -> None:
    (warning,) = warnings_of(rows_of(CALM, {**CALM, "reward": 0.5, key: value}))

    assert "reward from 0.1 to 0.5 rose" in warning
    assert f"{key} from {CALM[key]:.3g} to {value:.3g}" in warning


@pytest.mark.finding("remedies are true")
def test_neither_a_drift_alone_nor_a_rise_alone_is_a_warning() -> None:
    assert warnings_of(rows_of(CALM, {**CALM, "completions/mean_length": 90.0})) == []
    assert warnings_of(rows_of(CALM, {**CALM, "reward": 0.5, "completions/mean_length": 39.0, "entropy": 0.0})) == []


def test_a_rise_within_the_noise_of_the_first_steps_is_none() -> None:
    noisy = [{**CALM, "reward": 0.1 + (-1) ** step} for step in range(WINDOW)]

    assert warnings_of([*noisy, *[{**CALM, "reward": 0.9, "completions/mean_length": 5.0}] * WINDOW]) == []
    assert len(warnings_of([*noisy, *[{**CALM, "reward": 1.2, "completions/mean_length": 5.0}] * WINDOW])) == 1


def test_steps_without_a_metric_are_left_out() -> None:
    assert warnings_of([{"reward": None}] * 3 * WINDOW) == []
