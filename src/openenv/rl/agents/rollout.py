"""Groups of episodes of an agent's program, for training and for evaluation."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openenv.evaluation.episodes import EpisodeSessions
from openenv.evaluation.intervals import EpisodeResult
from openenv.rl.agents.environment import result_of
from openenv.rl.agents.episodes import AgentEpisodes, EpisodeSeeds
from openenv.rl.algorithm.rewards import Reward, rate
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.rollouts.rollout import RecordedSessions, group_seed, random_stream


class AgentRollout:
    """As `engines.protocol.RolloutWorker`: an agent's program plays each episode."""

    def __init__(self, episodes: AgentEpisodes, pool: EpisodeSessions, reward: Reward, environment: int) -> None:
        """environment: its number among those of the run."""
        self._episodes = episodes
        self._pool = RecordedSessions(pool, episodes.place)
        self._reward = reward
        self._environment = environment

    async def play(self, indices: Sequence[int], reset: Mapping[str, Any] | None = None) -> list[Group]:
        """As `RolloutWorker.play`."""
        config = self._episodes.config
        size = config.group_size
        seeds = [
            EpisodeSeeds(
                index * size + member,
                group_seed(config.seed, index),
                random_stream(config.seed, index, member).getrandbits(64),
            )
            for index in indices
            for member in range(size)
        ]
        played = await self._episodes.play(self._pool, seeds, reset or {})
        for trajectory in played:
            rate(trajectory, self._reward)
        return [
            Group(index, played[number * size : (number + 1) * size], self._environment)
            for number, index in enumerate(indices)
        ]


async def evaluated(
    episodes: AgentEpisodes,
    pool: EpisodeSessions,
    num_games: int,
    seed: int,
    reset: Mapping[str, Any],
    on_progress: Callable[[int, int], None] | None,
) -> list[EpisodeResult]:
    """The results of games of an agent's program. seed: of the first; the others follow it."""
    ended = Counter[str]()

    def on_end() -> None:
        ended["games"] += 1
        if on_progress is not None:
            on_progress(ended["games"], num_games)

    seeds = [EpisodeSeeds(number, seed + number, seed + number) for number in range(num_games)]
    return list(map(_result_of, await episodes.play(pool, seeds, reset, on_end, is_evaluation=True)))


def _result_of(trajectory: Trajectory) -> EpisodeResult:
    sampled = sum(int(segment.sampled.sum()) for segment in trajectory.segments)
    return result_of(
        trajectory,
        num_replies=sum(len(segment.replies) for segment in trajectory.segments),
        prompt_tokens=sum(len(segment) for segment in trajectory.segments) - sampled,
        completion_tokens=sampled,
    )
