import asyncio

from openenv.rl.rollouts.replay_buffer import ReplayBuffer, fresh_indices
from openenv.rl.rollouts.trajectory import Group, Segment, Trajectory


def group(index: int, version: int) -> Group:
    segment = Segment((1, 2), (False, True), (0.0, -1.0), version)
    return Group(index, [Trajectory(seed=0, segments=[segment], outcome="won")] * 2)


def test_fresh_groups_are_at_most_max_policy_age_versions_old() -> None:
    groups = [group(0, 3), group(1, 5), group(2, 4)]

    assert fresh_indices(groups, policy_version=5, max_policy_age=1) == [1, 2]


async def test_a_batch_is_given_in_the_order_of_group_numbers() -> None:
    buffer = ReplayBuffer(batch_size=2, max_policy_age=1)
    await buffer.put([group(3, 0), group(0, 0), group(1, 0)], reserved=await buffer.reserve(3))

    assert [g.index for g in await buffer.get()] == [0, 1]


async def test_a_reader_waits_until_the_batch_is_full() -> None:
    buffer = ReplayBuffer(batch_size=2, max_policy_age=0)
    reserved = await buffer.reserve(2)
    reader = asyncio.ensure_future(buffer.get())
    await buffer.put([group(0, 0)], reserved=1)
    assert not reader.done()

    await buffer.put([group(1, 0)], reserved=reserved - 1)

    assert len(await reader) == 2


async def test_strictly_on_policy_nothing_is_played_while_a_batch_is_in_training() -> None:
    buffer = ReplayBuffer(batch_size=2, max_policy_age=0)
    await buffer.put([group(0, 0), group(1, 0)], reserved=await buffer.reserve(2))
    await buffer.get()
    player = asyncio.ensure_future(buffer.reserve(2))
    await asyncio.sleep(0)
    assert not player.done()

    await buffer.advance(policy_version=1)

    assert await player == 2


async def test_no_more_is_promised_than_can_be_trained_on_in_time() -> None:
    buffer = ReplayBuffer(batch_size=4, max_policy_age=1)

    assert await buffer.reserve(6) == 6
    assert await buffer.reserve(6) == 2


async def test_groups_that_became_too_old_are_evicted_and_counted() -> None:
    buffer = ReplayBuffer(batch_size=2, max_policy_age=1)
    await buffer.put([group(0, 0), group(1, 2)], reserved=await buffer.reserve(2))

    await buffer.advance(policy_version=2)

    assert (len(buffer), buffer.num_evicted) == (1, 1)


async def test_dropped_groups_give_their_room_back() -> None:
    buffer = ReplayBuffer(batch_size=2, max_policy_age=0)
    await buffer.put([], reserved=await buffer.reserve(2))

    assert await buffer.reserve(2) == 2
