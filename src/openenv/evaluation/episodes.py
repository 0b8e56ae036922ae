"""Plays numbered episodes over a pool of sessions; evaluation, rollouts and the quality checks all use this runner."""

import asyncio
import contextlib
import itertools
import math
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from openenv.core.errors import EnvironmentFault, OpenEnvError, is_refused_action


class EpisodeSessions(Protocol):
    """The part of `SessionPool` that the runner uses: a fixed number of sessions, numbered from 0."""

    def __len__(self) -> int:
        """The number of sessions."""
        ...

    async def reset(self, requests: Mapping[int, Mapping[str, Any]]) -> Mapping[int, Any]:
        """Reset the named sessions. Returns a StepResult or an OpenEnvError for each."""
        ...

    async def step(self, actions: Mapping[int, Any]) -> Mapping[int, Any]:
        """Step the named sessions. Returns a StepResult or an OpenEnvError for each."""
        ...


@dataclass(frozen=True, slots=True)
class PendingAction:
    """An episode that waits for its next action."""

    episode: int
    """The episode's number."""
    observation: Any
    """The newest observation."""


class EpisodePlayer(Protocol):
    """Chooses the actions of many episodes at once and receives their results."""

    async def act(self, pending: list[PendingAction]) -> list[Any]:
        """One action for each pending episode. None ends the episode without a further step."""
        ...

    def on_result(self, episode: int, result: Any) -> None:
        """Receive the result of the reset or of a step. `result.done` marks the episode's end."""
        ...

    def on_refusal(self, episode: int, error: OpenEnvError, refusals: int) -> bool:
        """The environment refused the action, and the episode stands where it was.

        refusals: actions in a row that it refused there. Returns whether `act` is asked again; otherwise the episode
        has ended.
        """
        ...

    def on_failure(self, episode: int, error: OpenEnvError) -> None:
        """Receive the error that ended the episode. An exception raised here ends the run."""
        ...

    def on_step_limit(self, episode: int) -> None:
        """The episode took `max_steps` actions without reaching its end; it is stopped."""
        ...


class EpisodeRunner:
    """Plays each episode once, as many at a time as there are sessions; a free session takes the next episode.

    All running episodes act together, in the order of their numbers, so that the player may answer them in one batch.
    An environment's error ends one episode only. A refused action is no error: the player may choose another one.

    Example:
        await EpisodeRunner(pool, player).run({"seed": seed} for seed in range(100))
    """

    def __init__(
        self,
        pool: EpisodeSessions,
        player: EpisodePlayer,
        *,
        max_steps: int | None = None,
        num_sessions: int | None = None,
    ) -> None:
        """max_steps: actions after which an episode is stopped; None: no limit. num_sessions: None for all."""
        self._pool = pool
        self._player = player
        self._max_steps = max_steps
        self._free = list(range(len(pool) if num_sessions is None else num_sessions))
        self._pending: dict[int, PendingAction] = {}  # by session
        self._num_steps: dict[int, int] = {}  # by episode
        self._refusals: dict[int, int] = {}  # by episode, since its last step

    async def run(self, resets: Iterable[Mapping[str, Any]]) -> None:
        """Play one episode for each set of reset keywords. The episodes are numbered from 0; `resets` may be lazy."""
        await self.run_numbered(enumerate(resets))

    async def run_numbered(self, resets: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """The same for episodes with numbers of their own."""
        waiting = iter(resets)
        while True:
            while starting := {self._free.pop(): numbered for numbered in _take(waiting, len(self._free))}:
                await self._start(starting)
            if not self._pending:
                return
            await self._step()

    async def _start(self, starting: Mapping[int, tuple[int, Mapping[str, Any]]]) -> None:
        results = await self._pool.reset({session: keywords for session, (_, keywords) in starting.items()})
        for session, result in results.items():
            self._receive(session, starting[session][0], result)

    async def _step(self) -> None:
        chosen = dict(zip(self._pending, await self._player.act(list(self._pending.values())), strict=True))
        actions = {session: action for session, action in chosen.items() if action is not None}
        for session in chosen.keys() - actions.keys():
            self._release(session, self._pending.pop(session).episode)
        for session, result in (await self._pool.step(actions) if actions else {}).items():
            turn = self._pending.pop(session)
            if isinstance(result, OpenEnvError) and is_refused_action(result):
                self._refuse(session, turn, result)
                continue
            self._refusals.pop(turn.episode, None)
            self._num_steps[turn.episode] = self._num_steps.get(turn.episode, 0) + 1
            self._receive(session, turn.episode, result)

    def _refuse(self, session: int, turn: PendingAction, error: OpenEnvError) -> None:
        refusals = self._refusals[turn.episode] = self._refusals.get(turn.episode, 0) + 1
        if self._player.on_refusal(turn.episode, error, refusals):
            self._pending[session] = turn
        else:
            self._release(session, turn.episode)

    def _receive(self, session: int, episode: int, result: Any) -> None:
        """Pass a result on; the episode continues, ends, fails, or is stopped."""
        if _goes_on(self._player, episode, result, self._num_steps.get(episode, 0), self._max_steps):
            self._pending[session] = PendingAction(episode, result.observation)
        else:
            self._release(session, episode)

    def _release(self, session: int, episode: int) -> None:
        self._num_steps.pop(episode, None)
        self._refusals.pop(episode, None)
        self._free.append(session)


class FreeSessions:
    """The sessions of a pool that play no episode. The episode that has waited longest receives the next one."""

    def __init__(self, pool: EpisodeSessions) -> None:
        self.pool = pool
        self._free = deque(range(len(pool)))
        self._count = asyncio.Semaphore(len(pool))

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[int]:
        """A session, for the time of the `async with` statement."""
        async with self._count:
            session = self._free.popleft()
            try:
                yield session
            finally:
                self._free.append(session)


class ConcurrentRunner:
    """Plays each episode in a coroutine of its own, so that none waits for another but for a session.

    The player is asked for one action at a time, by as many episodes as there are sessions. Otherwise as
    `EpisodeRunner`. Several runners may share the sessions; the episodes of the first begin first.
    """

    def __init__(self, sessions: FreeSessions, player: EpisodePlayer, *, max_steps: int | None = None) -> None:
        """max_steps: actions after which an episode is stopped; None: no limit."""
        self._sessions = sessions
        self._pool = sessions.pool
        self._player = player
        self._max_steps = max_steps

    async def run(self, resets: Iterable[Mapping[str, Any]]) -> None:
        """As `EpisodeRunner.run`. All of `resets` is read at once."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for episode, keywords in enumerate(resets):
                    tasks.create_task(self._play(episode, keywords))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None  # the first caused the others

    async def _play(self, episode: int, keywords: Mapping[str, Any]) -> None:
        async with self._sessions.one() as session:
            await self._play_in(session, episode, keywords)

    async def _play_in(self, session: int, episode: int, keywords: Mapping[str, Any]) -> None:
        num_steps = 0
        result = (await self._pool.reset({session: keywords}))[session]
        while _goes_on(self._player, episode, result, num_steps, self._max_steps):
            result = await self._next(session, PendingAction(episode, result.observation))
            if result is None:
                return
            num_steps += 1

    async def _next(self, session: int, turn: PendingAction) -> Any:
        """What follows an action that the environment does not refuse. None if the player ends the episode."""
        for refusals in itertools.count(1):
            (action,) = await self._player.act([turn])
            if action is None:
                return None
            result = (await self._pool.step({session: action}))[session]
            if not (isinstance(result, OpenEnvError) and is_refused_action(result)):
                return result
            if not self._player.on_refusal(turn.episode, result, refusals):
                return None
        raise AssertionError("unreachable: the count has no end")


def _goes_on(player: EpisodePlayer, episode: int, result: Any, num_steps: int, max_steps: int | None) -> bool:
    """Pass a result on. Returns False if the episode has ended, failed, or is stopped."""
    if not isinstance(result, OpenEnvError) and not _is_finite(result.reward):  # from a server that does not check
        result = EnvironmentFault(f"reward={result.reward!r:.80}: a reward is a finite number, or None for none")
    if isinstance(result, OpenEnvError):
        player.on_failure(episode, result)
        return False
    player.on_result(episode, result)
    if result.done:
        return False
    if max_steps is not None and num_steps >= max_steps:
        player.on_step_limit(episode)
        return False
    return True


def _is_finite(reward: float | None) -> bool:
    """Whether returns and means can have the reward."""
    try:
        return reward is None or math.isfinite(reward)
    except OverflowError:  # an integer beyond the floats
        return False


def _take(waiting: Any, count: int) -> list[tuple[int, Mapping[str, Any]]]:
    """At most `count` of the next episodes."""
    return [numbered for _, numbered in zip(range(count), waiting, strict=False)]
