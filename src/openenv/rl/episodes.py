"""Plays numbered episodes over a pool of sessions: each session takes the next one as it finishes one."""

from collections.abc import Iterable, Iterator, Mapping
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
    waiting = iter(enumerate(resets))
    live: dict[int, Decision] = {}
    starting = _assigned(range(len(pool)), waiting)
    while live or starting:
        decisions = list(live.values())
        chosen = dict(zip(live, await player.act(decisions), strict=True)) if decisions else {}
        actions = {index: action for index, action in chosen.items() if action is not None}
        given_up = [index for index, action in chosen.items() if action is None]
        freed = {index: live.pop(index).episode for index in given_up}
        stepped = await pool.step(actions) if actions else {}
        for index, result in stepped.items():
            if _goes_on(player, live[index].episode, result):
                live[index] = Decision(live[index].episode, result.observation)
            else:
                freed[index] = live.pop(index).episode
        starting.update(_assigned(freed, waiting))
        await _start(pool, starting, live, player)
        starting = _assigned([index for index in starting if index not in live], waiting)


async def _start(
    pool: Sessions, starting: Mapping[int, tuple[int, Mapping[str, Any]]], live: dict[int, Decision], player: Player
) -> None:
    if not starting:
        return
    results = await pool.reset({index: keywords for index, (_, keywords) in starting.items()})
    for index, result in results.items():
        episode = starting[index][0]
        if isinstance(result, OpenEnvError):
            player.failed(episode, result)
        elif result.done:
            player.stepped(episode, result)
        else:
            live[index] = Decision(episode, result.observation)


def _goes_on(player: Player, episode: int, result: Any) -> bool:
    if isinstance(result, OpenEnvError):
        player.failed(episode, result)
        return False
    player.stepped(episode, result)
    return not result.done


def _assigned(
    sessions: Iterable[int], waiting: Iterator[tuple[int, Mapping[str, Any]]]
) -> dict[int, tuple[int, Mapping[str, Any]]]:
    """The next episodes, one for each free session, while there are any. (zip would lose one at the end.)"""
    assigned = {}
    for index in sessions:
        following = next(waiting, None)
        if following is None:
            break
        assigned[index] = following
    return assigned
