"""Plays episodes with a teacher and writes transcripts of them: what was shown, what was replied, how it ended.

The teacher of the tiny model is uniformly random legal play. A warm start may have any policy.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from openenv.core.client_types import StepResult
from openenv.core.errors import OpenEnvError
from openenv.evaluation.episodes import EpisodeRunner, EpisodeSessions, PendingAction
from openenv.evaluation.policy_player import choices_of
from openenv.policies.base import EndEpisode, Policy, as_action
from openenv.policies.baselines import RandomPolicy
from openenv.policies.prompts import ChatMessage, PromptBuilder, assistant_message
from openenv.rl.training.outcome_labels import outcome_labels
from openenv.rl.training.transcripts import Message, Transcript
from openenv.schema.legal_actions import REFUSED_REMEDY
from openenv.text.content import frozen
from openenv.text.interface import TextInterface

log = logging.getLogger(__name__)

OnCount = Callable[[int, int], None]
"""Called with how much is done and how much there is."""
NamedAction = tuple[str, Any]
"""A reply and the action that it names."""

FIRST_SEED = 900_000_000
"""Above the seeds of training, below those of evaluation."""
MAX_FAILURES = 20
"""Episodes that may fail before the first valid one."""


class Teacher(Protocol):
    """Chooses replies."""

    name: str
    reset_kwargs: Mapping[str, Any]
    """Keywords that it needs in each reset."""

    async def choose(self, pending: Sequence[PendingAction]) -> list[NamedAction | Exception | None]:
        """A reply for each episode. None or an error ends the episode, which is then left out."""
        ...

    def on_refusal(self, episode: int, reason: str, refusals: int) -> bool:
        """As in `Policy`."""
        ...

    def end_episode(self, episode: int) -> None:
        """The episode has ended."""
        ...


class RandomTeacher:
    """Draws each reply uniformly from the legal ones."""

    name = "random"
    reset_kwargs: Mapping[str, Any] = {}

    def __init__(self, text: TextInterface[Any, Any], seed: int) -> None:
        self._policy = RandomPolicy(seed, text=text)

    async def choose(self, pending: Sequence[PendingAction]) -> list[NamedAction | Exception | None]:
        """A random reply for each episode."""
        return [self._policy.select_reply(turn.observation) for turn in pending]

    def on_refusal(self, episode: int, reason: str, refusals: int) -> bool:
        """Draw again."""
        return self._policy.on_refusal(episode, reason, refusals)

    def end_episode(self, episode: int) -> None:
        """It remembers none."""


class PolicyTeacher:
    """Any policy. A language model's replies are those that it wrote; other policies' name their actions."""

    def __init__(self, policy: Policy, text: TextInterface[Any, Any]) -> None:
        """Raises ValueError for a policy that learns while it plays."""
        if policy.learns:
            raise ValueError(f"policy={policy.name!r} learns while it plays: its first replies teach nothing.")
        self.name = policy.name
        self.reset_kwargs = policy.reset_kwargs
        self._policy = policy
        self._text = text

    async def choose(self, pending: Sequence[PendingAction]) -> list[NamedAction | Exception | None]:
        """The policy's replies, or the failures to get one. Raises ValueError for an action that no reply names."""
        choices = await choices_of(self._policy, pending)
        return [self._named(turn, choice) for turn, choice in zip(pending, choices, strict=True)]

    def on_refusal(self, episode: int, reason: str, refusals: int) -> bool:
        """As the policy does."""
        return self._policy.on_refusal(episode, reason, refusals)

    def end_episode(self, episode: int) -> None:
        """Let the policy forget it."""
        if self._policy.follows_episodes:
            self._policy.end_episode(episode)

    def _named(self, turn: PendingAction, choice: Any) -> NamedAction | Exception | None:
        written = self._policy.take_replies(turn.episode) if self._policy.follows_episodes else []
        if isinstance(choice, EndEpisode) and choice.error is not None:
            return choice.error
        if choice is None or isinstance(choice, EndEpisode) or not all(reply.names_action for reply in written):
            return None
        action = as_action(choice)
        if written:
            return str(written[-1].message["content"]), action
        wording = self._text.wording(action, turn.observation)
        if wording is None:
            raise ValueError(f"no reply names the action {action!r:.200} of the policy {self.name!r}: it cannot teach.")
        return wording, action


@dataclass(slots=True)
class CollectedPlay:
    """Transcripts of episodes."""

    transcripts: Counter[Transcript] = field(default_factory=Counter)
    """Each transcript with its number of occurrences."""
    returns: Counter[float] = field(default_factory=Counter)
    """Each return with its number of valid episodes; those that the environment failed are left out."""
    num_decisions: int = 0
    num_rewards: int = 0
    """Resets and steps to which the environment gave a reward."""
    num_left_out: int = 0
    """Episodes that are no transcript."""
    best_return: float = -math.inf
    """The highest return of all that have finished."""
    acts_for_all: bool = False
    """Whether the player acted for several seats of a game, as the observations' metadata name them."""

    def add(self, other: "CollectedPlay") -> None:
        """Add what others have played."""
        self.transcripts.update(other.transcripts)
        self.returns.update(other.returns)
        self.num_decisions += other.num_decisions
        self.num_rewards += other.num_rewards
        self.num_left_out += other.num_left_out
        self.best_return = max(self.best_return, other.best_return)
        self.acts_for_all |= other.acts_for_all

    @property
    def num_episodes(self) -> int:
        """Number of valid episodes."""
        return self.returns.total()

    @property
    def decisions_per_episode(self) -> float:
        """Mean number of decisions of an episode; at least 1."""
        return max(1.0, self.num_decisions / max(1, self.num_episodes))


async def collect_play(
    pool: EpisodeSessions,
    teacher: Teacher,
    text: TextInterface[Any, Any],
    prompts: PromptBuilder,
    *,
    reset: Mapping[str, Any],
    max_episodes: int,
    max_decisions: int,
    min_return: float = -math.inf,
    max_turns: int | None = None,
    on_progress: OnCount | None = None,
    is_time_up: Callable[[], bool] = lambda: False,
) -> CollectedPlay:
    """Collect transcripts of a teacher's play, until there are enough decisions or episodes.

    Episodes that failed, that the teacher ended, or with a return below min_return are left out. If 20 fail before one
    has ended, the last error is raised.

    Args:
        prompts: those of training. Where they show the newest observation alone, each decision is a transcript of its
            own, followed by the label of the episode's return (`outcome_labels`); where they show the whole episode,
            that is one transcript.
        max_turns: actions after which an episode is stopped; None: no limit.
        is_time_up: no episode begins after it has returned True, but for the first.
    """
    player = _TranscribingPlayer(teacher, prompts, min_return, max_decisions, on_progress)

    def resets() -> Iterator[Mapping[str, Any]]:
        for number in range(max_episodes):
            if player.collected.num_decisions >= max_decisions:
                return
            if number and is_time_up():
                log.warning("max_minutes: play ends after %d decisions", player.collected.num_decisions)
                return
            yield {**teacher.reset_kwargs, **reset, "seed": FIRST_SEED + number}

    await EpisodeRunner(pool, player, max_steps=max_turns).run(resets())
    collected = player.collected
    labels = outcome_labels(collected.returns)
    for (messages, value), count in player.conversations.items():
        collected.transcripts[messages, labels[value]] += count
    log.info(
        "collected play: teacher=%s episodes=%d decisions=%d left_out=%d",
        teacher.name, collected.num_episodes, collected.num_decisions, collected.num_left_out,
    )  # fmt: skip
    return collected


class _TranscribingPlayer:
    """Plays the teacher's replies and writes the transcripts."""

    def __init__(
        self,
        teacher: Teacher,
        prompts: PromptBuilder,
        min_return: float,
        max_decisions: int,
        on_progress: OnCount | None,
    ) -> None:
        self.collected = CollectedPlay()
        """Without the transcripts, whose labels need all returns."""
        self.conversations: Counter[tuple[tuple[Message, ...], float]] = Counter()
        """What was shown and replied, with the return of the episode."""
        self._teacher = teacher
        self._prompts = prompts
        self._min_return = min_return
        self._max_decisions = max_decisions
        self._on_progress = on_progress
        self._running: dict[int, list[list[ChatMessage]]] = {}
        """By episode: what was shown and replied, of each decision or of the whole episode."""
        self._shown: dict[int, list[ChatMessage]] = {}
        """By episode: the prompt of the action that is taken."""
        self._replies: dict[int, str] = {}
        """By episode: the reply that names it."""
        self._returns: Counter[int] = Counter()
        self._num_turns: Counter[int] = Counter()
        self._seats: dict[int, Any] = {}
        """By episode: the seat of its first decision."""
        self._num_failed = 0

    async def act(self, pending: list[PendingAction]) -> list[Any]:
        """The action of the teacher's reply in each episode; None where it has none."""
        named = await self._teacher.choose(pending)
        actions = [self._take(turn, one) for turn, one in zip(pending, named, strict=True)]
        if self._on_progress is not None:
            self._on_progress(min(self.collected.num_decisions, self._max_decisions), self._max_decisions)
        return actions

    def _take(self, turn: PendingAction, named: NamedAction | Exception | None) -> Any:
        """Hold a reply until the environment has taken its action, which is returned."""
        if isinstance(named, Exception):
            self.on_failure(turn.episode, named)
            return None
        if named is None:
            self._leave_out(turn.episode)
            return None
        seat = (getattr(turn.observation, "metadata", None) or {}).get("agent_player")
        self.collected.acts_for_all |= self._seats.setdefault(turn.episode, seat) != seat
        if turn.episode not in self._shown:  # otherwise an action was refused there
            self._shown[turn.episode] = self._prompts.messages(turn.episode, turn.observation)
        self._replies[turn.episode], action = named
        return action

    def _write(self, episode: int, reply: str) -> None:
        """Add a reply to its episode."""
        messages = [*self._shown.pop(episode), assistant_message(reply)]
        self._prompts.add_reply(episode, reply)
        conversations = self._running.setdefault(episode, [])
        if self._prompts.remembers_episodes:
            conversations.clear()
        conversations.append(messages)
        self._num_turns[episode] += 1
        self.collected.num_decisions += 1

    def on_result(self, episode: int, result: StepResult[Any]) -> None:
        """Add the reply and the reward; at the end of the episode keep its conversations."""
        reply = self._replies.pop(episode, None)
        if reply is not None:
            self._write(episode, reply)
        if result.reward is not None:
            self.collected.num_rewards += 1
            self._returns[episode] += result.reward  # type: ignore[assignment]
        if result.done:
            self._finish(episode)

    def on_step_limit(self, episode: int) -> None:
        """Keep the conversations of an episode that was stopped."""
        self._finish(episode)

    def _finish(self, episode: int) -> None:
        value = float(self._returns[episode])
        self.collected.best_return = max(self.collected.best_return, value)
        if value < self._min_return:
            self._leave_out(episode)
            return
        self.collected.returns[value] += 1
        for messages in self._forget(episode):
            written = tuple((message["role"], frozen(message["content"])) for message in messages)
            self.conversations[written, value] += 1

    def on_refusal(self, episode: int, error: OpenEnvError, refusals: int) -> bool:
        """Ask the teacher again, or leave the episode out."""
        if self._teacher.on_refusal(episode, str(error), refusals):
            return True
        self.on_failure(episode, error)
        return False

    def on_failure(self, episode: int, error: Exception) -> None:
        """Leave the episode out. Raises the error if many have failed and none has ended."""
        log.warning("play of the teacher %s: left out an episode: %s", self._teacher.name, error)
        self._leave_out(episode)
        self._num_failed += 1
        if self._num_failed >= MAX_FAILURES and self.collected.best_return == -math.inf:
            log.error("%d episodes failed before one has ended. Where the environment refuses actions, %s.",
                      self._num_failed, REFUSED_REMEDY)  # fmt: skip
            raise error

    def _leave_out(self, episode: int) -> None:
        self.collected.num_left_out += 1
        self.collected.num_decisions -= self._num_turns[episode]
        self._forget(episode)

    def _forget(self, episode: int) -> list[list[ChatMessage]]:
        """The conversations of an episode that has ended."""
        for known in (self._returns, self._num_turns, self._seats, self._shown, self._replies):
            known.pop(episode, None)
        self._prompts.end_episode(episode)
        self._teacher.end_episode(episode)
        return self._running.pop(episode, [])
