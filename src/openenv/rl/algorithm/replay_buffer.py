"""The replay buffer: holds the groups of each step between rollouts and trainer, and evicts those that are too old."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.config.learning import AgeOf

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


def without_old(groups: Sequence[Group], oldest_version: int, age_of: AgeOf) -> tuple[list[Group], int]:
    """The groups that are young enough, and how many groups, episodes or tokens of older versions were left out.

    age_of: group, or episode, which leaves a group the others while there are two. Tokens are left out of the batch.
    """
    if age_of == "token":
        segments = [segment for group in groups for one in group.valid for segment in one.segments]
        return list(groups), sum(int((one.versions[one.sampled] < oldest_version).sum()) for one in segments)
    if age_of == "group":
        kept = [group for group in groups if group.policy_version >= oldest_version]
        return kept, len(groups) - len(kept)

    def is_young(trajectory: Trajectory) -> bool:
        return not trajectory.segments or trajectory.policy_version >= oldest_version

    parts = [replace(group, trajectories=list(filter(is_young, group.valid))) for group in groups]
    kept = [part for part in parts if len(part.valid) > 1 and any(one.segments for one in part.valid)]
    return kept, sum(len(group.valid) for group in groups) - sum(len(part.valid) for part in kept)


class ReplayBuffer:
    """Holds the groups of steps. Step s trains weights of version s, which become version s + 1.

    Rollouts wait for the version that plays a step's groups, the trainer waits for the groups.
    """

    def __init__(self, max_policy_age: int, policy_version: int = 0, age_of: AgeOf = "group") -> None:
        """policy_version: that of the current weights. age_of: what is evicted for an old token."""
        self.max_policy_age = max_policy_age
        self.num_evicted = 0
        """Number of groups, episodes or tokens that were left out because they were too old."""
        self._age_of: AgeOf = age_of
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
        """Wait for the groups of a step and remove them. What is too old to be trained on is evicted."""
        async with self._changed:
            await self._changed.wait_for(lambda: step in self._steps)
        groups = self._steps.pop(step)
        fresh, evicted = without_old(groups.trained, step - self.max_policy_age, self._age_of)
        if evicted:
            log.warning("too old at step %d, and not trained on: %d %ss", step, evicted, self._age_of)
        self.num_evicted += evicted
        return replace(groups, trained=fresh)

    async def advance(self, policy_version: int) -> None:
        """Mark a version of the weights as published."""
        async with self._changed:
            self._policy_version = policy_version
            self._changed.notify_all()
