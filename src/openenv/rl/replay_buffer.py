"""Groups on their way from the rollouts to the trainer, none of them older than allowed."""

import asyncio
import logging
from collections.abc import Sequence

from openenv.rl.trajectory import Group

log = logging.getLogger(__name__)


def fresh_indices(groups: Sequence[Group], policy_version: int, max_policy_age: int) -> list[int]:
    """Where in `groups` those are that weights of at most `max_policy_age` versions ago have played."""
    return [i for i, group in enumerate(groups) if policy_version - group.policy_version <= max_policy_age]


class ReplayBuffer:
    """A bounded buffer. Every wait is for an event: room to play, groups to train on, new weights.

    Rollouts `reserve` room before they play, so that no game is played that would be too old when its turn comes: the
    groups being played, waiting, and being trained on are at most (max_policy_age + 1) batches.
    """

    def __init__(self, batch_size: int, max_policy_age: int) -> None:
        self.batch_size = batch_size
        self.max_policy_age = max_policy_age
        self.num_evicted = 0
        """Groups thrown away because they had become too old."""
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
        """Wait until groups are wanted, then promise up to `most` of them. Returns how many: at least 1."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._room > 0)
            count = min(most, self._room)
            self._reserved += count
            return count

    async def put(self, groups: Sequence[Group], *, reserved: int) -> None:
        """Add groups (all that were reserved, or fewer when some are of no use)."""
        async with self._changed:
            self._reserved -= reserved
            self._groups.extend(groups)
            self._changed.notify_all()

    async def get(self) -> list[Group]:
        """Wait for a batch, and take it: the groups with the lowest numbers, in order."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._groups) >= self.batch_size)
            self._groups.sort(key=lambda group: group.index)
            batch, self._groups = self._groups[: self.batch_size], self._groups[self.batch_size :]
            self._in_training = len(batch)
            return batch

    async def advance(self, policy_version: int) -> None:
        """The trainer is done with its batch and has published these weights: what is too old for them goes."""
        async with self._changed:
            fresh = fresh_indices(self._groups, policy_version, self.max_policy_age)
            evicted = len(self._groups) - len(fresh)
            if evicted:
                log.info("evicted groups: number=%d policy_version=%d", evicted, policy_version)
            self.num_evicted += evicted
            self._groups = [self._groups[i] for i in fresh]
            self._in_training = 0
            self._changed.notify_all()
