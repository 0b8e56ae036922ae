"""Plays episodes with a policy over many sessions at once."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action
from openenv.core.errors import OpenEnvError, ServerUnreachable
from openenv.core.text import TextInterface
from openenv.core.vector import SessionPool
from openenv.envs.openspiel_env.models import OpenSpielAction
from openenv.evaluation.episode import Episode, Outcome

Progress = Callable[[int, int], None]
"""Called with the episodes ended and the episodes wanted."""


def openspiel_action(number: int) -> Action:
    """The action that a policy means by an int."""
    return OpenSpielAction(action_id=number)


async def play_episodes(
    pool: SessionPool[Any, Any],
    policy: Any,
    num_episodes: int,
    seed: int,
    *,
    reset_kwargs: Mapping[str, Any] | None = None,
    on_progress: Progress | None = None,
    text: TextInterface[Any, Any] | None = None,
    make_action: Callable[[int], Action] = openspiel_action,
    max_steps: int | None = None,
) -> list[Episode]:
    """`num_episodes` episodes in the order of their seeds: episode i is reset with seed `seed + i`.

    All sessions of the pool step together, each taking the next episode as it finishes one; a policy that learns plays
    its episodes one after another in one session.

    policy: any object with `name` and `select_action(observation)`; see `openenv.policies.Policy` for what else it may
    have. reset_kwargs: said at every reset. text: counts the decisions by its situations and names the outcomes.
    make_action: what an int from the policy means. max_steps: an episode that goes on for longer is invalid. An episode
    in which the policy names no legal action ends there as `unparseable`.

    Raises ServerUnreachable when no session can be opened any more, and whatever the policy raises.
    """
    kwargs = {**getattr(policy, "reset_kwargs", {}), **(reset_kwargs or {})}
    match = _Match(pool, policy, kwargs, text, make_action, max_steps)
    match.waiting.extend((number, seed + number) for number in range(num_episodes))
    while match.waiting or match.running:
        await match.start_episodes()
        await match.step()
        if on_progress is not None:
            on_progress(len(match.ended), num_episodes)
    return [match.ended[number] for number in range(num_episodes)]


@dataclass(slots=True)
class _Running:
    """An episode that goes on."""

    number: int
    seed: int
    observation: Any
    total_reward: float = 0.0
    num_steps: int = 0
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)


class _Match:
    """One policy on the sessions of one pool: the episodes waiting, running and ended."""

    def __init__(
        self,
        pool: SessionPool[Any, Any],
        policy: Any,
        reset_kwargs: Mapping[str, Any],
        text: TextInterface[Any, Any] | None,
        make_action: Callable[[int], Action],
        max_steps: int | None,
    ) -> None:
        self._pool, self._policy, self._reset_kwargs, self._text = pool, policy, reset_kwargs, text
        self._make_action, self._max_steps = make_action, max_steps
        self._sessions = range(1 if getattr(policy, "learns", False) else len(pool))
        self.waiting: deque[tuple[int, int]] = deque()
        """Number and seed of each episode that has not begun."""
        self.running: dict[int, _Running] = {}
        """By session."""
        self.ended: dict[int, Episode] = {}
        """By number."""

    async def start_episodes(self) -> None:
        """Reset every free session for the next waiting episode."""
        free = [session for session in self._sessions if session not in self.running]
        starting = {session: self.waiting.popleft() for session in free[: len(self.waiting)]}
        requests = {session: {**self._reset_kwargs, "seed": seed} for session, (_, seed) in starting.items()}
        for session, result in (await self._pool.reset(requests)).items():
            number, seed = starting[session]
            if isinstance(result, ServerUnreachable):
                raise result
            episode = _Running(number, seed, None)
            self.running[session] = episode
            if isinstance(result, OpenEnvError):
                self._end(session, "invalid", 0.0, f"reset: {result}")
            else:
                self._take_in(session, result)

    async def step(self) -> None:
        """Take one action in every running session."""
        if not self.running:
            return
        sessions = list(self.running)
        choices = dict(zip(sessions, await self._choices(sessions), strict=True))
        actions = {}
        for session, choice in choices.items():
            why_not = _unplayable(choice, self.running[session].observation)
            if why_not:
                self._end(session, "unparseable", self.running[session].total_reward, why_not)
            else:
                actions[session] = self._make_action(choice) if isinstance(choice, int) else choice
                self._count_decision(self.running[session], actions[session])
        for session, result in (await self._pool.step(actions)).items():
            if isinstance(result, OpenEnvError):
                self._end(session, "invalid", 0.0, f"step: {result}")
                continue
            before = self.running[session]
            before.num_steps += 1
            self._teach(before.observation, choices[session], result)
            self._take_in(session, result)

    async def _choices(self, sessions: list[int]) -> list[Any]:
        observations = [self.running[session].observation for session in sessions]
        select = getattr(self._policy, "select_actions", None)
        if select is None:
            return [self._policy.select_action(observation) for observation in observations]
        episodes = [self.running[session].number for session in sessions]
        known = {"episodes": episodes} if getattr(self._policy, "follows_episodes", False) else {}
        if getattr(self._policy, "is_slow", False):
            return list(await asyncio.to_thread(select, observations, **known))
        return list(select(observations, **known))

    def _take_in(self, session: int, result: StepResult[Any]) -> None:
        """The session's newest result: its reward, and perhaps its episode's end."""
        episode = self.running[session]
        episode.observation = result.observation
        episode.total_reward += float(result.reward or 0.0)
        if result.done:
            self._end(session, self._outcome(episode.total_reward), episode.total_reward)
        elif self._max_steps is not None and episode.num_steps >= self._max_steps:
            self._end(session, "invalid", 0.0, f"not over after {self._max_steps} steps")

    def _end(self, session: int, outcome: Outcome, total_reward: float, reason: str | None = None) -> None:
        episode = self.running.pop(session)
        if outcome in ("invalid", "unparseable"):
            getattr(self._policy, "forget_episode", _nothing)()
        if getattr(self._policy, "follows_episodes", False):
            self._policy.end_episode(episode.number)
        self.ended[episode.number] = Episode(
            seed=episode.seed,
            total_reward=total_reward,
            num_steps=episode.num_steps,
            outcome=outcome,
            reason=reason,
            decisions=episode.decisions,
        )

    def _outcome(self, total_reward: float) -> Any:
        if self._text is not None:
            return self._text.outcome(total_reward)
        return "won" if total_reward > 0 else "lost" if total_reward < 0 else "push"

    def _count_decision(self, episode: _Running, action: Action) -> None:
        situation = self._text.situation(episode.observation) if self._text else None
        if self._text is None or situation is None:
            return
        for wording, legal in self._text.replies(episode.observation).items():
            if legal == action:
                episode.decisions[situation, wording] += 1

    def _teach(self, observation: Any, choice: Any, result: StepResult[Any]) -> None:
        learn = getattr(self._policy, "learn", None)
        if learn is not None:
            learn(observation, choice, float(result.reward or 0.0), result.observation, result.done)


def _unplayable(choice: Any, observation: Any) -> str | None:
    """Why the choice forfeits the episode, if it does."""
    if choice is None:
        return "the reply names no legal action"
    legal = getattr(observation, "legal_actions", None)
    number = choice if isinstance(choice, int) else getattr(choice, "action_id", None)
    if legal is not None and number is not None and number not in legal:
        return f"action {number} is not among the legal actions {legal}"
    return None


def _nothing() -> None:
    return
