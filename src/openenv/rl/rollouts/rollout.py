"""Plays groups of episodes with the generator and records a trajectory of each."""

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any

from openenv.core.client_types import StepResult
from openenv.core.errors import OpenEnvError, ServerUnreachable, SessionLost
from openenv.core.outcomes import REFUSED, outcome_of
from openenv.evaluation.episodes import (
    ConcurrentRunner,
    EpisodePlayer,
    EpisodeRunner,
    EpisodeSessions,
    FreeSessions,
    PendingAction,
)
from openenv.policies.base import Choice, EndEpisode
from openenv.policies.conversations import Conversations, OnReply, ReplyRequest
from openenv.policies.prompts import ChatMessage, PromptBuilder, answer_of, is_cut_off
from openenv.rl.algorithm.rewards import Reward, rate
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group, Trajectory, Turn
from openenv.rl.config import Config
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.reply_queue import Replies
from openenv.rl.rollouts.self_play import ALL_SEATS, SelfPlayPlayer, all_of
from openenv.rl.waiting.waits import Place, Waits
from openenv.text.content import text_of
from openenv.text.interface import TextInterface

if TYPE_CHECKING:
    from openenv.rl.models.chat import Chat

Member = tuple[int, int]
"""The number of a group, and the place of an episode in it."""
_OPPONENT = 1 << 31
"""Added to a member's number: the random numbers of its opponents."""


class Rollout:
    """Plays groups in one environment. All episodes of a group start from one seed; all groups of a call are played at
    the same time."""

    def __init__(
        self,
        pool: EpisodeSessions,
        text: TextInterface[Any, Any],
        generator: BaseGenerator,
        reward: Reward,
        config: Config,
        executor: Executor,
        *,
        chat: "Chat | None" = None,
        environment: int = 0,
        opponents: BaseGenerator | None = None,
        place: Place | None = None,
    ) -> None:
        """
        Args:
            executor: runs the generator, one call at a time, so that the event loop stays free.
            chat: of the environment, whose tools it shows; None for the generator's.
            environment: its number among those of the run.
            opponents: plays the seats that are not trained; None: the environment has opponents of its own.
            place: where its waits are recorded, and what it is called there.
        """
        self._place = place or Place(Waits())
        self._pool = RecordedSessions(pool, self._place)
        self._sessions = FreeSessions(self._pool)
        self._text = text
        self._generator = generator
        self._reward = reward
        self._config = config
        self._executor = executor
        self._chat = chat or generator.chat
        self._environment = environment
        self._opponents = opponents

    async def play(self, indices: Sequence[int], reset: Mapping[str, Any] | None = None) -> list[Group]:
        """Play the groups with these numbers. A group's number and the run's seed determine its deal and its draws.

        reset: keywords of every reset. The seed is added.
        """
        size = self._config.group_size
        played = await self.play_members([(index, member) for index in indices for member in range(size)], reset)
        return [
            Group(index, played[number * size : (number + 1) * size], self._environment)
            for number, index in enumerate(indices)
        ]

    async def play_members(
        self,
        members: Sequence[Member],
        reset: Mapping[str, Any] | None = None,
        openings: Sequence[Sequence[ChatMessage]] = (),
    ) -> list[Trajectory]:
        """The same for single episodes: each is a group's number and a place in the group.

        openings: the first messages of each episode, before what it shows first; none: there are none.
        """
        config = self._config
        seeds = [group_seed(config.seed, index) for index, _ in members]
        streams = [random_stream(config.seed, *member) for member in members]
        async with contextlib.AsyncExitStack() as stack:
            replies = await stack.enter_async_context(self._generator.replies(self._chat, self._executor))
            player = _RecordingPlayer(
                self._text,
                self._generator,
                replies,
                partial(self._conversations, openings),
                seeds,
                streams,
                config.conversation.max_turns,
                self._place,
            )
            seated: EpisodePlayer = player
            keywords = dict(reset or {})
            if self._opponents is not None:
                others = await stack.enter_async_context(self._opponents.replies(self._chat, self._executor))
                seated = self._with_opponents(player, self._opponents, others, members)
                keywords |= ALL_SEATS
            most = config.conversation.max_turns
            runner: EpisodeRunner | ConcurrentRunner = (
                EpisodeRunner(self._pool, seated, max_steps=most)
                if config.plays_together
                else ConcurrentRunner(self._sessions, seated, max_steps=most)
            )
            await runner.run({**keywords, "seed": seed} for seed in seeds)
        for trajectory in player.trajectories:
            rate(trajectory, self._reward)
        return player.trajectories

    def _with_opponents(
        self, player: EpisodePlayer, generator: BaseGenerator, replies: Replies, members: Sequence[Member]
    ) -> SelfPlayPlayer:
        """The player in one seat of each game, and a generator with random numbers of its own in the others."""
        seed = self._config.seed
        streams = [random_stream(seed, index, _OPPONENT + place) for index, place in members]

        async def complete(request: ReplyRequest) -> str:
            return generator.reply(await replies.answer(request, streams[request.episode]))

        groups = [index for index, _ in members]
        return SelfPlayPlayer(player, self._conversations(), complete, self._text, groups, streams)

    def _conversations(
        self, openings: Sequence[Sequence[ChatMessage]] = (), on_reply: OnReply | None = None
    ) -> Conversations:
        """Those of some episodes. openings: the first messages of each. on_reply: see `Conversations`."""
        config = self._config
        prompts = PromptBuilder(
            self._text,
            instructions=config.model.shows_instructions,
            tools=self._chat.tools,
            history=config.conversation.history,
            openings=dict(enumerate(openings)),
        )
        return Conversations(
            prompts,
            self._text,
            constrains=config.sampling.constrain,
            rules=config.conversation.rules,
            fits=self._chat.fits(config.max_req_tokens),
            on_reply=on_reply,
        )


class RecordedSessions:
    """Sessions of a pool. What waits for them is recorded."""

    def __init__(self, pool: EpisodeSessions, place: Place) -> None:
        self._pool = pool
        self._place = place

    def __len__(self) -> int:
        return len(self._pool)

    async def reset(self, requests: Mapping[int, Mapping[str, Any]]) -> Mapping[int, Any]:
        """As `EpisodeSessions.reset`."""
        with self._place.waits.of(self._place.name, self._place.environment):
            return await self._pool.reset(requests)

    async def step(self, actions: Mapping[int, Any]) -> Mapping[int, Any]:
        """As `EpisodeSessions.step`."""
        with self._place.waits.of(self._place.name, self._place.environment):
            return await self._pool.step(actions)


def group_seed(seed: int, index: int) -> int:
    """The environment's seed of a group, below the seeds of pretraining and evaluation.

    Runs with different seeds share no deal before their hundred-millionth group.
    """
    return (seed * 104_729_000 + index) % 900_000_000


def random_stream(seed: int, index: int, member: int) -> random.Random:
    """The random numbers of one episode, independent of what else is played. member: its place in the group."""
    return random.Random((seed << 96) + (index << 32) + member)


class _RecordingPlayer:
    """Lets the generator choose the actions and records prompts, replies, tokens and rewards."""

    def __init__(
        self,
        text: TextInterface[Any, Any],
        generator: BaseGenerator,
        replies: Replies,
        conversations: Callable[..., Conversations],
        seeds: Sequence[int],
        streams: Sequence[random.Random],
        max_turns: int,
        place: Place,
    ) -> None:
        """
        Args:
            replies: those of the generator.
            conversations: makes the conversations of the episodes, with `on_reply`.
            seeds, streams: the seed and the random numbers of each episode.
            max_turns: actions after which an episode is stopped.
        """
        self.trajectories = [Trajectory(seed=seed) for seed in seeds]
        self._streams = streams
        self._text = text
        self._generator = generator
        self._replies = replies
        self._max_turns = max_turns
        self._place = place
        self._conversations = conversations(on_reply=self._record_turn)

    async def act(self, pending: list[PendingAction]) -> list[Any]:
        """The generator's actions; None where the episode ends without one."""
        with self._place.waits.of(self._place.name, self._place.generator):
            return await all_of(map(self._act, pending))

    async def _act(self, turn: PendingAction) -> Any:
        choice = await self._conversations.choose_one(turn.episode, turn.observation, self._complete)
        return self._action(turn.episode, choice)

    def on_result(self, episode: int, result: StepResult[Any]) -> None:
        """Add the reward; at the end of the episode set its outcome."""
        trajectory = self.trajectories[episode]
        if trajectory.success_return is None and not trajectory.turns:
            trajectory.success_return = self._text.success_of(result.observation)
        trajectory.add_result(result.reward, getattr(result.observation, "metadata", None))
        if result.done:
            self._finish(trajectory)

    def on_refusal(self, episode: int, error: OpenEnvError, refusals: int) -> bool:
        """The reply named no legal action: a retry follows, or the episode ends as unparseable."""
        trajectory = self.trajectories[episode]
        trajectory.turns[-1].action = None
        if self._conversations.refuse(episode, str(error)):
            return True
        trajectory.outcome, trajectory.reason = "unparseable", f"{REFUSED}: {error}"
        return False

    def on_failure(self, episode: int, error: OpenEnvError) -> None:
        """Mark the episode invalid, with the error as the reason."""
        trajectory = self.trajectories[episode]
        trajectory.outcome, trajectory.reason = "invalid", f"{type(error).__name__}: {error}"
        trajectory.has_lost_server = isinstance(error, SessionLost | ServerUnreachable)

    def on_step_limit(self, episode: int) -> None:
        """Finish the episode: its rewards so far count."""
        self._stop(self.trajectories[episode], f"stopped after conversation.max_turns={self._max_turns}")

    def _action(self, episode: int, choice: Choice) -> Any:
        """The action of a choice. None at the episode's end, with its outcome and the reason."""
        if not isinstance(choice, EndEpisode):
            return choice
        trajectory = self.trajectories[episode]
        if choice.counts:
            self._stop(trajectory, choice.reason)
        else:
            trajectory.outcome, trajectory.reason = "unparseable", choice.reason
        return None

    def _stop(self, trajectory: Trajectory, reason: str) -> None:
        trajectory.reason, trajectory.is_stopped = reason, True
        self._finish(trajectory)

    def _finish(self, trajectory: Trajectory) -> None:
        trajectory.outcome = outcome_of(trajectory.game_return, trajectory.success_return)

    async def _complete(self, request: ReplyRequest) -> str:
        """A sampled reply to a conversation. Its tokens are recorded."""
        segment = await self._replies.answer(request, self._streams[request.episode])
        _record_tokens(self.trajectories[request.episode], segment)
        self._place.waits.tokens[self._place.generator] += len(segment.sampled_ids)
        return self._generator.reply(segment)

    def _record_turn(self, episode: Any, observation: Any, reply: str, action: Any) -> None:
        """Add the turn, with the text interface's own wording of the action that was parsed."""
        wording = None if action is None else self._text.wording(action, observation) or answer_of(reply)
        seen, situation = text_of(self._text.describe(observation)), self._text.situation(observation)
        self.trajectories[episode].turns.append(
            Turn(seen, str(reply), situation, wording, is_cut_off=is_cut_off(reply))
        )


def _record_tokens(trajectory: Trajectory, segment: Segment) -> None:
    """Extend the episode's last segment if the prompt continues it; otherwise add a segment for the turn.

    Prompts that show the whole episode continue it, unless the chat template drops the thinking of earlier turns. The
    prompt of a retry continues that of the reply before it.
    """
    if not (trajectory.segments and trajectory.segments[-1].extend(segment)):
        trajectory.segments.append(segment)
