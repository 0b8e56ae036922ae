"""Which environment of a mixture plays a group, and at which level of its curriculum."""

import bisect
import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import ConfigError, CurriculumConfig, EnvConfig

log = logging.getLogger(__name__)

_GOLDEN_RATIO = 0.6180339887498949


def environment_of(index: int, configs: Sequence[EnvConfig]) -> int:
    """The number of the environment that plays a group. Any run of groups has the environments in their shares.

    The fractional parts of index * 0.618... fill the unit interval evenly (Weyl 1916), and each environment has a part
    of it as long as its share.
    """
    ends = list(itertools.accumulate(shares(configs)))
    return min(bisect.bisect_right(ends, index * _GOLDEN_RATIO % 1.0), len(configs) - 1)


def shares(configs: Sequence[EnvConfig]) -> list[float]:
    """The fraction of the groups that each environment plays, from the weights."""
    total = sum(config.weight for config in configs)
    return [config.weight / total for config in configs]


@dataclass(slots=True)
class _Level:
    """The level that an environment has reached, and what has been played at it."""

    number: int = 0
    num_episodes: int = 0
    num_successes: int = 0


class Curricula:
    """The levels of all environments. An environment without a curriculum has one level, its own reset keywords."""

    def __init__(self, configs: Sequence[EnvConfig], state: Sequence[Sequence[int]] = ()) -> None:
        """state: a saved `state`; empty for the first levels."""
        self._configs = configs
        self._levels = [_Level(*numbers) for numbers in state] or [_Level() for _ in configs]

    @property
    def state(self) -> list[list[int]]:
        """For each environment its level, and the episodes and successes at it so far."""
        return [[level.number, level.num_episodes, level.num_successes] for level in self._levels]

    def keywords(self, environment: int) -> dict[str, Any]:
        """Keywords of resets at the environment's level."""
        return level_keywords(self._configs[environment])[self._levels[environment].number]

    def add(self, groups: Sequence[Group]) -> None:
        """Add the groups of a step. An environment with enough episodes at its level may change it."""
        for number, (config, level) in enumerate(zip(self._configs, self._levels, strict=True)):
            curriculum = config.curriculum
            if curriculum is None:
                continue
            episodes = [t for group in groups if group.environment == number for t in group.valid]
            level.num_episodes += len(episodes)
            if episodes and all(trajectory.success_return is None for trajectory in episodes):
                raise ConfigError(
                    f"env.success_return=None: {config.name} declares no success, by which a curriculum changes its "
                    "level. Set it to the return from which an episode is a success."
                )
            level.num_successes += sum(trajectory.outcome == "won" for trajectory in episodes)
            if level.num_episodes >= curriculum.episodes:
                self._levels[number] = _next_level(config, curriculum, level)


def level_keywords(config: EnvConfig) -> list[dict[str, Any]]:
    """Keywords of resets at each level of an environment, the easiest first."""
    levels: Sequence[Mapping[str, Any]] = config.curriculum.levels if config.curriculum else [{}]
    return [{**config.reset, **level} for level in levels]


def _next_level(config: EnvConfig, curriculum: CurriculumConfig, level: _Level) -> _Level:
    """The level after enough episodes: the next, the one before, or the same, counted anew."""
    rate = level.num_successes / level.num_episodes
    change = 1 if rate >= curriculum.raise_at else -1 if rate <= curriculum.lower_at else 0
    number = min(max(level.number + change, 0), len(curriculum.levels) - 1)
    if number != level.number:
        log.info("%s: success rate %.2f at level %d, continues at level %d", config.name, rate, level.number, number)
    return _Level(number)
