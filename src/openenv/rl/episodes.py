"""Plays numbered episodes over a pool of sessions: each session takes the next one as it finishes one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from openenv.core.client_types import StepResult
from openenv.core.errors import OpenEnvError


class Sessions(Protocol):
    """What is needed of `openenv.core.vector.SessionPool`."""

    def __len__(self) -> int:
        """The number of sessions."""
        ...

    async def reset(self, requests: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
        """Results or errors of the sessions named."""
        ...

    async def step(self, actions: Mapping[int, Any]) -> dict[int, Any]:
        """Results or errors of the sessions named."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """An episode that waits for an action."""

    episode: int
    observation: Any


class Player(Protocol):
    """Decides for many episodes at once, and is told how they go."""

    async def act(self, decisions: list[Decision]) -> list[Any]:
        """One action for each decision; None gives the episode up."""
        ...

    def stepped(self, episode: int, result: StepResult[Any]) -> None:
        """An action was taken; `result` is the environment's answer. `result.done` says that the episode is over."""
        ...

    def failed(self, episode: int, error: OpenEnvError) -> None:
        """The environment failed in this episode, which ends with it."""
        ...


async def play(pool: Sessions, resets: Iterable[Mapping[str, Any]], player: Player) -> None:
    """Play one episode for each set of reset keywords; they are numbered from 0, in order. `resets` may be lazy."""
    table = _Table(pool, resets, player)
    while await table.deal():
        await table.turn()


class _Table:
    """The episodes that are being played, each in its session."""

    def __init__(self, pool: Sessions, resets: Iterable[Mapping[str, Any]], player: Player) -> None:
        self._pool = pool
        self._player = player
        self._waiting = iter(enumerate(resets))
        self._free = list(range(len(pool)))
        self._live: dict[int, Decision] = {}  # by session

    async def deal(self) -> bool:
        """Start waiting episodes in the free sessions. Returns whether there is anything to play."""
        while starting := self._next_episodes():
            results = await self._pool.reset({session: keywords for session, (_, keywords) in starting.items()})
            for session, result in results.items():
                self._take_in(session, starting[session][0], result, is_first=True)
        return bool(self._live)

    async def turn(self) -> None:
        """One action in every episode."""
        chosen = dict(zip(self._live, await self._player.act(list(self._live.values())), strict=True))
        actions = {session: action for session, action in chosen.items() if action is not None}
        for session in chosen.keys() - actions.keys():
            del self._live[session]
            self._free.append(session)
        for session, result in (await self._pool.step(actions) if actions else {}).items():
            self._take_in(session, self._live.pop(session).episode, result)

    def _next_episodes(self) -> dict[int, tuple[int, Mapping[str, Any]]]:
        """The number and keywords of the next episode, for each free session while there are any."""
        starting = {}
        while self._free and (following := next(self._waiting, None)) is not None:
            starting[self._free.pop()] = following
        return starting

    def _take_in(self, session: int, episode: int, result: Any, *, is_first: bool = False) -> None:
        """An answer of the environment: the episode goes on, ends, or breaks."""
        if not isinstance(result, OpenEnvError):
            if result.done or not is_first:
                self._player.stepped(episode, result)
            if not result.done:
                self._live[session] = Decision(episode, result.observation)
                return
        else:
            self._player.failed(episode, result)
        self._free.append(session)
