import asyncio

import pytest

from openenv.rl.algorithm.replay_buffer import ReplayBuffer, StepGroups, without_old
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.config.learning import AgeOf


def group(index: int, version: int) -> Group:
    segment = Segment((1, 2), (False, True), (0.0, -1.0), version)
    return Group(index, [Trajectory(seed=0, segments=[segment], outcome="won")] * 2)


def step_groups(*groups: Group) -> StepGroups:
    return StepGroups(list(groups), list(groups))


def mixed(index: int, *versions: int) -> Group:
    """A group of episodes of two replies each, the first by version 5."""
    return Group(
        index,
        [
            Trajectory(seed=0, segments=[Segment((1, 2, 3), (False, True, True), (0.0, -1.0, -1.0), (5, 5, version))])
            for version in versions
        ],
    )


@pytest.mark.parametrize(
    ("age_of", "left", "num_old"),
    [("group", {1: 2}, 2), ("episode", {0: 2, 1: 2}, 3), ("token", {0: 3, 1: 2, 2: 2}, 3)],
)
def test_an_old_token_costs_its_group_its_episode_or_itself(age_of: AgeOf, left: dict[int, int], num_old: int) -> None:
    groups = [mixed(0, 5, 3, 4), mixed(1, 4, 5), mixed(2, 3, 3)]
    for one in groups:
        for trajectory in one.trajectories:
            trajectory.outcome = "won"

    kept, found = without_old(groups, 4, age_of)

    assert {one.index: len(one.valid) for one in kept} == left
    assert found == num_old
    assert [len(one.trajectories) for one in groups] == [3, 2, 2]


async def test_the_trainer_waits_for_the_groups_of_its_step() -> None:
    buffer = ReplayBuffer(max_policy_age=1)
    reader = asyncio.ensure_future(buffer.get(0))
    await buffer.put(1, step_groups(group(1, 0)))
    assert not reader.done()

    await buffer.put(0, step_groups(group(0, 0)))

    assert [g.index for g in (await reader).trained] == [0]
    assert len(buffer) == 1


async def test_rollouts_wait_for_the_version_that_plays_their_groups() -> None:
    buffer = ReplayBuffer(max_policy_age=0)
    await buffer.wait_for_version(0)
    player = asyncio.ensure_future(buffer.wait_for_version(1))
    await asyncio.sleep(0)
    assert not player.done()

    await buffer.advance(policy_version=1)

    await player


async def test_groups_that_are_too_old_for_their_step_are_evicted_and_counted_but_still_reported() -> None:
    buffer = ReplayBuffer(max_policy_age=1)
    await buffer.put(3, step_groups(group(0, 0), group(1, 2), group(2, 3)))

    groups = await buffer.get(3)

    assert [g.index for g in groups.trained] == [1, 2]
    assert len(groups.played) == 3
    assert buffer.num_evicted == 1
