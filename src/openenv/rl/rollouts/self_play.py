"""Self-play: one seat of a game is trained, and an earlier version of the policy plays the others."""

import asyncio
import random
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.errors import OpenEnvError
from openenv.evaluation.episodes import EpisodePlayer, PendingAction
from openenv.policies.base import EndEpisode
from openenv.policies.conversations import CompleteTurn, Conversations
from openenv.text.interface import TextInterface

ALL_SEATS = {"agent_player": "all"}
"""The keyword of resets with which an environment lets one session act for every seat. The metadata of its observations
has `agent_player`, the seat to act, and `rewards`, the reward of each seat since the observation before; that of the
first has `num_players`."""


class SelfPlayPlayer(EpisodePlayer):
    """Passes one seat's turns and rewards to the player that records, and lets the opponents' model act for the others.

    An opponent's reply without a legal action is replaced by a random action.
    """

    def __init__(
        self,
        recording: EpisodePlayer,
        opponents: Conversations,
        complete: CompleteTurn,
        text: TextInterface[Any, Any],
        groups: Sequence[int],
        streams: Sequence[random.Random],
    ) -> None:
        """
        Args:
            complete: has the opponents' replies.
            groups: the number of each episode's group, which determines its seat.
            streams: the opponents' random numbers in each episode.
        """
        self._recording = recording
        self._opponents = opponents
        self._complete = complete
        self._text = text
        self._groups = groups
        self._streams = streams
        self._seats: dict[int, int] = {}
        self._acts: dict[int, bool] = {}
        """Whether the trained seat has chosen the newest action of an episode."""

    async def act(self, pending: list[PendingAction]) -> list[Any]:
        """An action of the seat to act in each episode; None where the trained policy ends the episode."""
        self._acts |= {turn.episode: _seat_of(turn.observation) == self._seats[turn.episode] for turn in pending}
        mine = [turn for turn in pending if self._acts[turn.episode]]
        others = [turn for turn in pending if not self._acts[turn.episode]]
        actions = (
            dict(zip((turn.episode for turn in mine), await self._recording.act(mine), strict=True)) if mine else {}
        )
        chosen = await all_of(map(self._opposing, others))
        actions |= {turn.episode: action for turn, action in zip(others, chosen, strict=True)}
        return [actions[turn.episode] for turn in pending]

    async def _opposing(self, turn: PendingAction) -> Any:
        """The opponents' action in an episode."""
        choice = await self._opponents.choose_one(turn.episode, turn.observation, self._complete)
        return self._random(turn) if isinstance(choice, EndEpisode) else choice

    def _random(self, turn: PendingAction) -> Any:
        return self._text.random_reply(turn.observation, self._streams[turn.episode])[1]

    def on_result(self, episode: int, result: StepResult[Any]) -> None:
        """Pass the result on with the reward of the trained seat."""
        metadata = result.observation.metadata
        if episode not in self._seats:
            self._seats[episode] = self._groups[episode] % int(metadata["num_players"])
        rewards: Sequence[float] = metadata["rewards"]
        self._recording.on_result(episode, replace(result, reward=rewards[self._seats[episode]]))

    def on_refusal(self, episode: int, error: OpenEnvError, refusals: int) -> bool:
        """Pass on that of the trained seat. An opponent's refused action makes the episode invalid."""
        if self._acts[episode]:
            return self._recording.on_refusal(episode, error, refusals)
        self.on_failure(episode, error)
        return False

    def on_failure(self, episode: int, error: OpenEnvError) -> None:
        """Pass it on."""
        self._recording.on_failure(episode, error)

    def on_step_limit(self, episode: int) -> None:
        """Pass it on."""
        self._recording.on_step_limit(episode)


async def all_of(choices: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """What coroutines return that run at the same time, in their order. The first error ends the others."""
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(choice) for choice in choices]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in running]


def _seat_of(observation: Any) -> int:
    return int(observation.metadata["agent_player"])
