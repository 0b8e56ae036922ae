"""The replay buffer: holds the groups of each step between rollouts and trainer, and evicts those that are too old."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from openenv.rl.algorithm.trajectory import Group

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StepGroups:
    """The groups of one step, in the order of their numbers."""

    played: list[Group]
    """All groups, whose results are reported."""
    trained: list[Group]
    """Those of them that are trained on."""
    levels: list[list[int]] = field(default_factory=list)
    """`Curricula.state` after they were played."""


def fresh_indices(groups: Sequence[Group], policy_version: int, max_policy_age: int) -> list[int]:
    """Indices of the groups that were played by weights at most `max_policy_age` versions old."""
    return [i for i, group in enumerate(groups) if policy_version - group.policy_version <= max_policy_age]


class ReplayBuffer:
    """Holds the groups of steps. Step s trains weights of version s, which become version s + 1.

    Rollouts wait for the version that plays a step's groups, the trainer waits for the groups.
    """

    def __init__(self, max_policy_age: int, policy_version: int = 0) -> None:
        """policy_version: that of the current weights."""
        self.max_policy_age = max_policy_age
        self.num_evicted = 0
        """Number of groups that were evicted because they were too old."""
        self._policy_version = policy_version
        self._steps: dict[int, StepGroups] = {}
        self._changed = asyncio.Condition()

    def __len__(self) -> int:
        """Number of steps whose groups wait to be trained on."""
        return len(self._steps)

    async def wait_for_version(self, policy_version: int) -> None:
        """Wait until the trainer has made this version of the weights."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._policy_version >= policy_version)

    async def put(self, step: int, groups: StepGroups) -> None:
        """Add the groups of a step."""
        async with self._changed:
            self._steps[step] = groups
            self._changed.notify_all()

    async def get(self, step: int) -> StepGroups:
        """Wait for the groups of a step and remove them. Groups that are too old to be trained on are evicted."""
        async with self._changed:
            await self._changed.wait_for(lambda: step in self._steps)
        groups = self._steps.pop(step)
        fresh = fresh_indices(groups.trained, step, self.max_policy_age)
        evicted = len(groups.trained) - len(fresh)
        if evicted:
            log.warning("evicted groups that are too old: number=%d policy_version=%d", evicted, step)
        self.num_evicted += evicted
        return replace(groups, trained=[groups.trained[i] for i in fresh])

    async def advance(self, policy_version: int) -> None:
        """Mark a version of the weights as published."""
        async with self._changed:
            self._policy_version = policy_version
            self._changed.notify_all()
