"""A run that learns nothing logs why."""

import re
from typing import Any

import pytest

from openenv.rl.algorithm.learning_signal import SignalWatch, has_signal
from openenv.rl.algorithm.rewards import EpisodeReward, rate
from openenv.rl.algorithm.trajectory import Group, Trajectory, Turn
from openenv.rl.config import Config
from openenv.rl.config_file import config_from_mapping


def group(config: Config, *returns: float, outcome: Any = "won", reason: str = "") -> Group:
    trajectories = []
    for value in returns:
        turn = Turn("seen", "reply", None, "reply", reward=value)
        trajectory = Trajectory(seed=0, turns=[turn], game_return=value, outcome=outcome, reason=reason)
        rate(trajectory, EpisodeReward(config.reward))
        trajectories.append(trajectory)
    return Group(0, trajectories)


def reason_for(config: Config, *groups: Group) -> str:
    watch = SignalWatch(config)
    watch.add(groups)
    return watch.reason


CONFIG = config_from_mapping({"reward": {"scale": 1.0}, "trainer": {"training": {"patience": 2}}})
CONSTRAINED = config_from_mapping({"sampling": {"constrain": True}, "max_res_tokens": 16})
LIMITED = config_from_mapping({"max_minutes": 4})
PRETRAINED = config_from_mapping({"model": {"path": "models/any"}, "sampling": {"constrain": False}})
BY_SIGN = config_from_mapping({"reward": {"win": 2.0, "push": 0.5, "loss": -1.0}})


@pytest.mark.parametrize(
    ("config", "groups", "reason"),
    [
        (CONFIG, [group(CONFIG, -100.0, -100.0)] * 2, "all returns are -100. Either the policy can do no better"),
        (
            CONFIG,
            [group(CONFIG, 0.0, 0.0, outcome="unparseable", reason="'xyz' names none of: a, b")],
            r"all 2 episodes ended with a reply that names no legal action \(.xyz. names none of: a, b\). To change: "
            "set sampling.constrain: true, or begin with a higher pretrain.steps",
        ),
        (
            LIMITED,
            [group(LIMITED, 0.0, outcome="unparseable")],
            r"pretraining: half of max_minutes=4 ends it, or",
        ),
        (PRETRAINED, [group(PRETRAINED, 0.0, outcome="unparseable")], r"or begin with warm_start: {policy: random}"),
        (CONSTRAINED, [group(CONSTRAINED, 0.0, outcome="unparseable")], r"change: raise max_res_tokens=16"),
        (CONFIG, [group(CONFIG, 0.0, 0.0, outcome="invalid", reason="it broke")], r"are invalid \(it broke\). Mend"),
        (
            BY_SIGN,
            [group(BY_SIGN, -107.0, -100.0)],
            "all rewards are -1, although returns range from -107 to -100. Remove or change reward.win, push and loss",
        ),
        (
            CONFIG,
            [group(CONFIG, 1.0, 1.0), group(CONFIG, 3.0, 3.0)],
            "returns range from 1 to 3, .* but those from one start all end alike. Raise group_size",
        ),
    ],
)
@pytest.mark.finding("remedies are true")
def test_the_reason_names_what_is_equal_and_what_to_change(config: Config, groups: list[Group], reason: str) -> None:
    assert re.search(reason, reason_for(config, *groups))


@pytest.mark.finding("remedies are true")
def test_a_warning_is_due_after_patience_and_training_ends_after_twice_that() -> None:
    watch, equal = SignalWatch(CONFIG), [group(CONFIG, 1.0, 1.0)]
    due = []
    for _ in range(4):
        watch.add(equal)
        due.append((watch.is_due, watch.has_given_up))

    assert due == [(False, False), (True, False), (False, False), (True, True)]


def test_a_group_with_different_rewards_starts_the_count_anew() -> None:
    watch = SignalWatch(CONFIG)
    watch.add([group(CONFIG, 1.0, 1.0)])
    assert watch.steps_without == 1

    watch.add([group(CONFIG, 1.0, 1.0), group(CONFIG, 1.0, 2.0)])

    assert watch.steps_without == 0


def test_one_valid_episode_is_no_signal() -> None:
    assert not has_signal(group(CONFIG, 1.0))
