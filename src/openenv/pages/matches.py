"""Episodes that two policies play from one seed, each step kept so that they can be shown beside each other."""

import asyncio
import copy
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import orjson

from openenv.auto.environment import ServedEnvironment
from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action
from openenv.core.session_pool import SessionPool
from openenv.core.utils import run_async_safely
from openenv.core.wire.json_codec import to_plain_or_text, write_json
from openenv.evaluation.evaluator import play_episodes
from openenv.evaluation.intervals import EpisodeResult
from openenv.evaluation.policy_player import EpisodeObserver
from openenv.pages.live_results import LiveResults
from openenv.policies.base import PolicyReply
from openenv.text.interface import TextInterface

log = logging.getLogger(__name__)

_MOST_MATCHES = 20
"""Matches that are kept; the oldest is forgotten."""


@dataclass(slots=True)
class Turn:
    """The reset or a step of an episode."""

    action: str
    """In words; empty for the reset."""
    observation: dict[str, Any]
    """Its fields as JSON values."""
    reward: float | None
    total_reward: float | None
    """Of all rewards so far; None before the first."""
    done: bool


@dataclass(slots=True)
class Side:
    """The episode of one of the two policies, as far as it was played."""

    policy: str
    turns: list[Turn] = field(default_factory=list)
    result: EpisodeResult | None = None
    """None while it is played, and after an error."""


@dataclass(slots=True)
class Match:
    """Two episodes from one seed."""

    seed: int
    sides: list[Side]
    is_over: bool = False
    problem: str = ""
    """The error that ended it."""


class MatchRefused(ValueError):
    """The match cannot be played now."""


class Matches:
    """Plays matches, one after another, in a thread of its own. Close it."""

    def __init__(
        self,
        served: ServedEnvironment,
        make_policy: Callable[[str, int], Any],
        policies: Sequence[Any],
        results: LiveResults,
        *,
        reset_kwargs: Mapping[str, Any] | None = None,
        max_steps: int = 1000,
    ) -> None:
        """
        Args:
            make_policy: makes the policy of a name and a seed.
            policies: those that are evaluated, of which the ones that learn play with what they have learned.
            reset_kwargs, max_steps: those of the evaluation.
        """
        self._served, self._make_policy = served, make_policy
        self._policies, self._results = policies, results
        self._reset_kwargs = reset_kwargs or {}
        self._max_steps = max_steps
        self._numbers = itertools.count(1)
        self._matches: dict[int, Match] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="match")
        self._is_closed = False

    def begin(self, places: Sequence[int], seed: int) -> int:
        """Let two policies play an episode; returns the number of the match. Raises MatchRefused."""
        players = [self._player(place, seed) for place in places]
        number = next(self._numbers)
        match = Match(seed, [Side(self._results.names[place]) for place in places])
        self._matches[number] = match
        while len(self._matches) > _MOST_MATCHES:
            del self._matches[min(self._matches)]
        self._thread.submit(self._play, match, players)
        return number

    def get(self, number: int) -> Match | None:
        """The match of a number, or None."""
        return self._matches.get(number)

    def close(self) -> None:
        """End the match that is being played, after its running step."""
        self._is_closed = True
        self._thread.shutdown(cancel_futures=True)

    def _player(self, place: int, seed: int) -> Any:
        """A policy that plays one episode, and does not change what the evaluation's policy does."""
        if place >= len(self._policies):
            raise MatchRefused(f"policies: there is no policy {place}; the evaluation has {len(self._policies)}")
        policy = self._policies[place]
        if not getattr(policy, "learns", False):
            return self._make_policy(self._results.names[place], seed)
        if not self._results.has_finished(place):
            raise MatchRefused(f"{self._results.names[place]} is still learning. Try again when its episodes are over.")
        return copy.deepcopy(policy)

    def _play(self, match: Match, players: Sequence[Any]) -> None:
        try:
            run_async_safely(self._play_sides(match, players))
        except _Closed:
            log.info("match of seed %d ended: the page closes", match.seed)
        except Exception as error:  # border: a policy is anyone's code, and the page shows its error
            match.problem = f"{type(error).__name__}: {error}"
            log.info("match of seed %d ended", match.seed, exc_info=True)
        finally:
            match.is_over = True

    async def _play_sides(self, match: Match, players: Sequence[Any]) -> None:
        """Play both episodes at the same time. Raises the first error; the other episode is played to its end."""
        playing = (self._play_side(side, policy, match.seed) for side, policy in zip(match.sides, players, strict=True))
        for outcome in await asyncio.gather(*playing, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _play_side(self, side: Side, policy: Any, seed: int) -> None:
        turns = _Turns(side, self._served.text, lambda: self._is_closed)
        async with SessionPool(self._served.client, self._served.base_url, 1) as pool:
            played = await play_episodes(
                pool, policy, 1, seed, reset_kwargs=self._reset_kwargs, text=self._served.text,
                max_steps=self._max_steps, observers=[turns],
            )  # fmt: skip
        side.result = played[0]


class _Turns(EpisodeObserver):
    """Adds the turns of an episode to a side."""

    def __init__(self, side: Side, text: TextInterface[Any, Any], is_closed: Callable[[], bool]) -> None:
        """is_closed: whether the page has closed, which ends the episode with `_Closed`."""
        self._side, self._text, self._is_closed = side, text, is_closed
        self._observation: Any = None
        self._action = ""

    def on_replies(self, episode: int, replies: Sequence[PolicyReply], action: Action | None) -> None:
        if action is not None:
            self._action = self._words(action)

    def on_result(self, episode: int, result: StepResult[Any]) -> None:
        if self._is_closed():
            raise _Closed
        turns, self._observation = self._side.turns, result.observation
        fields = result.observation.model_dump(mode="python")
        before = turns[-1].total_reward if turns else None
        turns.append(
            Turn(
                action=self._action,
                observation=orjson.loads(write_json(fields, default=to_plain_or_text)),
                reward=result.reward,
                total_reward=before if result.reward is None else (before or 0.0) + result.reward,
                done=result.done,
            )
        )

    def _words(self, action: Action) -> str:
        """An action as the environment's text interface names it, or its fields."""
        wording = self._text.wording(action, self._observation)
        if wording is not None:
            return wording
        return write_json(action.model_dump(exclude_defaults=True), default=to_plain_or_text).decode()


class _Closed(Exception):
    """The page has closed: no further step is taken."""
