"""Plays episodes in which an agent's program is the policy, and records what its model has sampled."""

import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple

from openenv.agents.endpoint.server import Endpoint
from openenv.evaluation.episodes import EpisodeSessions
from openenv.policies.conversations import ReplyRequest
from openenv.rl.agents.environment import EnvironmentEpisode
from openenv.rl.agents.model import AgentModels, CapturedModel, TokenLimits
from openenv.rl.agents.program import Agent, in_sessions, run_program
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Trajectory
from openenv.rl.config import Config
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.reply_queue import Replies
from openenv.rl.models.chat import Chat
from openenv.rl.waiting.waits import Place
from openenv.text.interface import TextInterface

log = logging.getLogger(__name__)

_MOST_REASONS = 5
"""Of invalid episodes, that the log has."""


class EpisodeSeeds(NamedTuple):
    """What determines an episode, beside what its program does."""

    number: int
    environment: int
    """Of the reset."""
    draws: int
    """Of the model's replies."""


@dataclass(frozen=True, kw_only=True)
class AgentEpisodes:
    """Episodes of one environment."""

    config: Config
    """That of the run."""
    agent: Agent
    text: TextInterface[Any, Any]
    """The environment's."""
    chat: Chat
    generator: BaseGenerator
    """Samples the replies of the model."""
    executor: Executor
    """Runs it."""
    place: Place
    """Where their waits are recorded, and what they are called there."""

    async def play(
        self,
        pool: EpisodeSessions,
        episodes: Sequence[EpisodeSeeds],
        reset: Mapping[str, Any],
        on_end: Callable[[], None] = lambda: None,
        *,
        is_evaluation: bool = False,
    ) -> list[Trajectory]:
        """Play episodes, each by a run of the program, and return them in their order.

        The event loop has to be free meanwhile. Raises what the generator fails with.

        Args:
            pool: sessions of the environment.
            episodes: what determines each.
            reset: keywords of every reset.
            on_end: called after each episode.
            is_evaluation: whether nothing is trained on them, as the ledger of their calls and tokens in the log then
                has it.
        """
        config = self.config
        limits = TokenLimits(config.max_req_tokens, config.max_res_tokens, config.conversation.max_episode_tokens)
        assert config.agent is not None
        async with Endpoint() as endpoint, self.generator.replies(self.chat, self.executor) as replies:
            models = AgentModels(self.chat, _RecordedReplies(replies, self.place), limits)
            ledger = Counter[str]()

            async def play(seeds: EpisodeSeeds, session: int) -> Trajectory:
                trajectory, model = await self._play(endpoint, models, pool, session, seeds, reset)
                unused = "evaluation" if is_evaluation else "" if trajectory.valid else "an invalid episode"
                ledger.update(model.capture.ledger(unused))
                ledger.update(model.not_given)
                on_end()
                return trajectory

            played = await in_sessions(pool, config.agent.at_once, episodes, play)
        log.info("agents: %s", ", ".join(f"{number} {name}" for name, number in sorted(ledger.items())))
        for reason, number in Counter(one.reason for one in played if not one.valid).most_common(_MOST_REASONS):
            log.warning("agents: %d episodes are invalid: %s", number, reason)
        return played

    async def _play(
        self,
        endpoint: Endpoint,
        models: AgentModels,
        pool: EpisodeSessions,
        session: int,
        seeds: EpisodeSeeds,
        reset: Mapping[str, Any],
    ) -> tuple[Trajectory, CapturedModel]:
        settings = self.config.agent
        assert settings is not None
        episode = EnvironmentEpisode(pool, session, self.text, seeds.environment, self.config.conversation)
        model = CapturedModel(
            models,
            seeds.number,
            seeds.draws,
            lambda: episode.is_done,
            must_call=settings.tool_choice == "required",
        )
        await episode.begin(reset)
        with self.place.waits.of(self.place.name, "programs of the agent"):
            await run_program(self.agent, settings.time_limit_s, endpoint, model, episode)
        if model.broken is not None:
            raise model.broken
        trajectory = episode.trajectory
        trajectory.segments = model.capture.segments()
        lost = model.capture.invalid_because
        if lost is not None and trajectory.valid:
            trajectory.outcome, trajectory.reason = "invalid", lost
        return trajectory, model


class _RecordedReplies:
    """The replies of a generator. What waits for them is recorded."""

    def __init__(self, replies: Replies, place: Place) -> None:
        self._replies = replies
        self._place = place

    async def answer(self, request: ReplyRequest, stream: random.Random) -> Segment:
        """As `Replies.answer`."""
        with self._place.waits.of(self._place.name, self._place.generator):
            segment = await self._replies.answer(request, stream)
        self._place.waits.tokens[self._place.generator] += len(segment.sampled_ids)
        return segment
