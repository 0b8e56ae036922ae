import asyncio

from openenv.rl.algorithm.replay_buffer import ReplayBuffer, StepGroups, fresh_indices
from openenv.rl.algorithm.trajectory import Group, Segment, Trajectory


def group(index: int, version: int) -> Group:
    segment = Segment((1, 2), (False, True), (0.0, -1.0), version)
    return Group(index, [Trajectory(seed=0, segments=[segment], outcome="won")] * 2)


def step_groups(*groups: Group) -> StepGroups:
    return StepGroups(list(groups), list(groups))


def test_fresh_groups_are_at_most_max_policy_age_versions_old() -> None:
    groups = [group(0, 3), group(1, 5), group(2, 4)]

    assert fresh_indices(groups, policy_version=5, max_policy_age=1) == [1, 2]


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
