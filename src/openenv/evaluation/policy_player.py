"""Lets a policy play the episodes of a runner, and makes a result of each."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action
from openenv.core.errors import OpenEnvError, ServerUnreachable
from openenv.core.outcomes import REFUSED, EpisodeOutcome, declared_success, outcome_of
from openenv.evaluation.episodes import EpisodeSessions, PendingAction
from openenv.evaluation.intervals import EpisodeResult
from openenv.policies.base import EndEpisode, Policy, PolicyReply, as_action
from openenv.text.interface import TextInterface

log = logging.getLogger(__name__)

_MOST_FAILURES = 20
"""A policy that has failed so often, and never chosen, raises its first error."""

OnEpisodes = Callable[[int, int], None]
"""Called with the number of episodes that have ended and the number wanted."""


class EpisodeObserver:
    """Sees what happens in the episodes of one policy, each named by its number. Overrides what it needs.

    The methods are called in the event loop. An error that one of them raises ends the evaluation.
    """

    def on_replies(self, episode: int, replies: Sequence[PolicyReply], action: Action | None) -> None:
        """The policy has chosen. action: None if its last reply names none."""

    def on_refusal(self, episode: int) -> None:
        """The environment has refused the newest action."""

    def on_result(self, episode: int, result: StepResult[Any]) -> None:
        """A reset or a step has returned."""

    def on_end(self, episode: int, result: EpisodeResult) -> None:
        """The episode has ended; one that failed at its reset had no result."""


class PlaysEpisodes(ABC):
    """A policy that is not asked for actions: it plays whole episodes itself, as an agent's program does."""

    name: str

    @abstractmethod
    async def play(
        self,
        pool: EpisodeSessions,
        resets: Mapping[int, Mapping[str, Any]],
        max_steps: int | None,
        observers: Sequence[EpisodeObserver],
    ) -> Mapping[int, EpisodeResult]:
        """Play episodes, and return their results by number.

        Args:
            pool: sessions of the environment's server. All are free.
            resets: keywords of the reset of each episode, by its number. They have its seed.
            max_steps: actions after which an episode is stopped; None: no limit.
            observers: see the episodes.
        """


@dataclass(slots=True)
class _RunningEpisode:
    """An episode that has begun."""

    observation: Any = None
    """The newest observation; None before the reset has returned."""
    action: Any = None
    """What the policy chose last."""
    total_reward: float | None = None
    """None before the first reward."""
    success_return: float | None = None
    num_steps: int = 0
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    replies: Counter[str] = field(default_factory=Counter)
    """Replies and tokens by the names of the counts in `EpisodeResult`."""


class PolicyPlayer:
    """Lets a policy choose the actions of all running episodes and keeps their results."""

    def __init__(
        self,
        policy: Policy,
        text: TextInterface[Any, Any] | None,
        max_steps: int | None,
        first_seed: int,
        num_episodes: int,
        known: Mapping[int, EpisodeResult],
        observers: Sequence[EpisodeObserver],
        on_progress: OnEpisodes | None,
        executor: Executor | None,
    ) -> None:
        self._policy, self._text, self._max_steps = policy, text, max_steps
        self._executor = executor
        self._first_seed, self._num_episodes = first_seed, num_episodes
        self._observers, self._on_progress = observers, on_progress
        self._running: dict[int, _RunningEpisode] = {}
        self.ended: dict[int, EpisodeResult] = dict(known)
        """By the episode's number."""
        self._can_choose = bool(known)
        self._errors: list[Exception] = []
        """Of the episodes in which the policy could not choose."""
        self._logged: set[str] = set()
        """The reasons of these that were logged."""

    async def act(self, pending: list[PendingAction]) -> list[Any]:
        """The policy's actions; None where it chose none that is legal."""
        choices = await choices_of(self._policy, pending, self._executor)
        return [self._checked(waiting, choice) for waiting, choice in zip(pending, choices, strict=True)]

    def on_result(self, episode: int, result: StepResult[Any]) -> None:
        """Add the reward, let the policy learn, and finish the episode if it is done."""
        for observer in self._observers:
            observer.on_result(episode, result)
        running = self._running.get(episode)
        if running is None:
            first = result.observation
            success_return = declared_success(first) if self._text is None else self._text.success_of(first)
            running = self._running[episode] = _RunningEpisode(success_return=success_return)
        else:
            running.num_steps += 1
            self._count_decision(running, as_action(running.action))
            gained = 0.0 if result.reward is None else float(result.reward)
            self._policy.learn(running.observation, running.action, gained, result.observation, result.done)
        running.observation = result.observation
        if result.reward is not None:
            running.total_reward = (running.total_reward or 0.0) + float(result.reward)
        if result.done:
            self._end(episode, outcome_of(running.total_reward, running.success_return), running.total_reward)

    def on_refusal(self, episode: int, error: OpenEnvError, refusals: int) -> bool:
        """Let the policy choose again if it does that. Otherwise the episode ends as unparseable."""
        running = self._running[episode]
        running.replies["num_unparseable_replies"] += running.replies["num_replies"] > 0
        for observer in self._observers:
            observer.on_refusal(episode)
        if self._policy.on_refusal(episode, str(error), refusals):
            return True
        self._end(episode, "unparseable", running.total_reward, f"{REFUSED}: {error}")
        return False

    def on_failure(self, episode: int, error: OpenEnvError) -> None:
        """Finish the episode as invalid. Raises ServerUnreachable when that is why it could not begin."""
        is_reset = episode not in self._running
        if is_reset and isinstance(error, ServerUnreachable):
            raise error
        self._running.setdefault(episode, _RunningEpisode())
        self._end(episode, "invalid", None, f"{'reset' if is_reset else 'step'}: {error}")

    def on_step_limit(self, episode: int) -> None:
        """Finish the episode: its rewards so far count."""
        self._stop(episode, f"stopped after {self._max_steps} steps")

    def _stop(self, episode: int, reason: str) -> None:
        running = self._running[episode]
        self._end(episode, outcome_of(running.total_reward, running.success_return), running.total_reward, reason)

    def _checked(self, waiting: PendingAction, choice: Any) -> Any:
        """The action that the choice names. None, and the episode has ended, if it names none that is legal."""
        running = self._running[waiting.episode]
        if isinstance(choice, EndEpisode) and choice.error is not None:
            self._fail(waiting.episode, choice.error, choice.reason)
            return None
        self._can_choose = True
        problem = _problem_with(choice, waiting.observation)
        action = as_action(choice)
        self._take_replies(waiting.episode, None if problem else action)
        if isinstance(choice, EndEpisode) and choice.counts:
            self._stop(waiting.episode, choice.reason)
            return None
        if problem is not None:
            self._end(waiting.episode, "unparseable", running.total_reward, problem)
            return None
        running.action = choice
        return action

    def _fail(self, episode: int, error: Exception, reason: str) -> None:
        """Finish the episode as invalid. Raises the first error of a policy that fails from the start."""
        self._errors.append(error)
        if not self._can_choose and len(self._errors) >= min(_MOST_FAILURES, self._num_episodes):
            raise self._errors[0]
        if reason not in self._logged:
            self._logged.add(reason)
            log.warning(
                "episode of seed %d is invalid, as others with this reason will be: %s",
                self._first_seed + episode,
                reason,
                exc_info=None if isinstance(error, OpenEnvError) or len(self._errors) > 1 else error,
            )
        self._take_replies(episode, None, has_failed=True)
        self._end(episode, "invalid", None, reason)

    def _take_replies(self, episode: int, action: Action | None, *, has_failed: bool = False) -> None:
        """Count the policy's newest replies, and show them to the observers with the action that was chosen.

        has_failed: a further reply could not be had, so that the choice was none.
        """
        replies = self._policy.take_replies(episode) if self._policy.follows_episodes else []
        self._running[episode].replies.update(
            num_replies=len(replies),
            num_unparseable_replies=sum(not reply.names_action for reply in replies),
            num_cut_off_replies=sum(reply.is_cut_off for reply in replies),
            prompt_tokens=sum(reply.prompt_tokens for reply in replies),
            completion_tokens=sum(reply.completion_tokens for reply in replies),
        )
        for observer in self._observers:
            if replies or not has_failed:
                observer.on_replies(episode, replies, action)

    def end_running(self) -> None:
        """Let the policy forget the episodes that an interruption has left without an end."""
        for episode in self._running:
            self._policy_ends(episode, has_failed=True)

    def _policy_ends(self, episode: int, has_failed: bool) -> None:
        if has_failed:
            self._policy.forget_episode()
        if self._policy.follows_episodes:
            self._policy.end_episode(episode)

    def _end(
        self, episode: int, outcome: EpisodeOutcome, total_reward: float | None, reason: str | None = None
    ) -> None:
        running = self._running.pop(episode)
        self._policy_ends(episode, outcome in ("invalid", "unparseable"))
        self.ended[episode] = EpisodeResult(
            seed=self._first_seed + episode,
            total_reward=total_reward,
            num_steps=running.num_steps,
            outcome=outcome,
            success_return=running.success_return,
            reason=reason,
            decisions=running.decisions,
            **running.replies,
        )
        for observer in self._observers:
            observer.on_end(episode, self.ended[episode])
        if self._on_progress is not None:
            self._on_progress(len(self.ended), self._num_episodes)

    def _count_decision(self, running: _RunningEpisode, action: Action) -> None:
        situation = self._text.situation(running.observation) if self._text else None
        if self._text is None or situation is None:
            return
        wording = self._text.wording(action, running.observation)
        if wording is not None:
            running.decisions[situation, wording] += 1


def _problem_with(choice: Any, observation: Any) -> str | None:
    """Why a choice cannot be played; None when it can."""
    if choice is None:
        return "the reply names no legal action"
    if isinstance(choice, EndEpisode):
        return choice.reason
    legal = getattr(observation, "legal_actions", None)
    number = choice if isinstance(choice, int) else getattr(choice, "action_id", None)
    if legal is not None and number is not None and number not in legal:
        return f"action {number} is not among the legal actions {legal}"
    return None


async def choices_of(policy: Policy, pending: Sequence[PendingAction], executor: Executor | None = None) -> list[Any]:
    """The policy's choice for each episode, or an end with the error that kept it from choosing.

    executor: runs a slow policy; None: any thread.
    """
    select = partial(policy.select_actions, [waiting.observation for waiting in pending])
    if policy.follows_episodes:
        select.keywords["episodes"] = [waiting.episode for waiting in pending]
    try:
        return await _called(select, executor) if policy.is_slow else select()
    except OpenEnvError as error:  # of the whole batch
        return [EndEpisode.of_error(error)] * len(pending)


async def _called(select: Callable[[], list[Any]], executor: Executor | None) -> list[Any]:
    choosing = asyncio.get_running_loop().run_in_executor(executor, select)
    try:
        return await asyncio.shield(choosing)
    finally:
        await asyncio.wait([choosing])  # also after a cancellation: the thread still uses the policy
