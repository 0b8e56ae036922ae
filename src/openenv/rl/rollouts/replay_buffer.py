"""The replay buffer: holds groups between rollouts and trainer, and evicts those that are too old."""

import asyncio
import logging
from collections.abc import Sequence

from openenv.rl.rollouts.trajectory import Group

log = logging.getLogger(__name__)


def fresh_indices(groups: Sequence[Group], policy_version: int, max_policy_age: int) -> list[int]:
    """Indices of the groups that were played by weights at most `max_policy_age` versions old."""
    return [i for i, group in enumerate(groups) if policy_version - group.policy_version <= max_policy_age]


class ReplayBuffer:
    """A bounded buffer of groups.

    Rollouts `reserve` room before they play, so that no group is too old when it is trained on: the groups being
    played, waiting, and being trained on are at most (max_policy_age + 1) batches.
    """

    def __init__(self, batch_size: int, max_policy_age: int) -> None:
        self.batch_size = batch_size
        self.max_policy_age = max_policy_age
        self.num_evicted = 0
        """Number of groups that were evicted because they were too old."""
        self._groups: list[Group] = []
        self._reserved = 0
        self._in_training = 0
        self._changed = asyncio.Condition()

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def _room(self) -> int:
        held = len(self._groups) + self._reserved + self._in_training
        return (self.max_policy_age + 1) * self.batch_size - held

    async def reserve(self, most: int) -> int:
        """Wait for room and reserve it for up to `most` groups. Returns how many were reserved: at least 1."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._room > 0)
            count = min(most, self._room)
            self._reserved += count
            return count

    async def put(self, groups: Sequence[Group], *, reserved: int) -> None:
        """Add groups and release their reservation. groups: all that were reserved, or fewer if some were dropped."""
        async with self._changed:
            self._reserved -= reserved
            self._groups.extend(groups)
            self._changed.notify_all()

    async def get(self) -> list[Group]:
        """Wait for a batch and remove it: the groups with the lowest numbers, in order."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._groups) >= self.batch_size)
            self._groups.sort(key=lambda group: group.index)
            batch, self._groups = self._groups[: self.batch_size], self._groups[self.batch_size :]
            self._in_training = len(batch)
            return batch

    async def advance(self, policy_version: int) -> None:
        """Mark the batch as trained and `policy_version` as published; evict groups that are now too old."""
        async with self._changed:
            fresh = fresh_indices(self._groups, policy_version, self.max_policy_age)
            evicted = len(self._groups) - len(fresh)
            if evicted:
                log.info("evicted groups: number=%d policy_version=%d", evicted, policy_version)
            self.num_evicted += evicted
            self._groups = [self._groups[i] for i in fresh]
            self._in_training = 0
            self._changed.notify_all()
