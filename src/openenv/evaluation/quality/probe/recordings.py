"""Episodes recorded frame by frame, so that they can be compared byte for byte."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from openenv.core.errors import OpenEnvError
from openenv.evaluation.episodes import EpisodeRunner, PendingAction
from openenv.evaluation.quality.probe.raw_client import RawClient, RawFrame
from openenv.policies.base import ActsOnObservations

EPISODE_ID = "openenv-check"
"""Sent with every reset, so that episodes do not differ in their id."""


@dataclass(slots=True)
class Recording:
    """An episode, complete or as far as it was played."""

    responses: list[RawFrame]
    """The response to the reset, then one for each action."""
    actions: list[dict[str, Any]] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    """Seconds of each step, including the network."""

    @property
    def last(self) -> RawFrame:
        """The newest frame that is not an error."""
        return next(frame for frame in reversed(self.responses) if not frame.is_error)

    @property
    def frames(self) -> list[str]:
        """The server's frames without their ids."""
        return [frame.comparable for frame in self.responses]

    @property
    def num_accepted(self) -> int:
        """Number of actions that the environment accepted."""
        return sum(not frame.is_error for frame in self.responses[1:])

    @property
    def rewards(self) -> list[Any]:
        """The reward of each accepted action."""
        return [frame.data.get("reward") for frame in self.responses[1:] if not frame.is_error]


async def begin(client: RawClient, seed: int) -> Recording:
    """Begin an episode. Raises RequestFailed if the server refuses the reset."""
    return Recording([await client.require("reset", {**client.reset, "seed": seed, "episode_id": EPISODE_ID})])


async def take(client: RawClient, recording: Recording, action: dict[str, Any]) -> RawFrame:
    """Send an action, and record it with its response."""
    started = time.perf_counter()
    frame = await client.request("step", action)
    recording.step_s.append(time.perf_counter() - started)
    recording.actions.append(action)
    recording.responses.append(frame)
    return frame


async def play(
    client: RawClient, seed: int, policy: ActsOnObservations, max_steps: int, *, deadline: float | None = None
) -> Recording:
    """Play an episode with a policy, to its end or for `max_steps` actions, including refused ones.

    deadline: no further action is sent after this time of the event loop.
    """
    return (await play_all(client, [seed], policy, max_steps, deadline=deadline))[0]


async def play_all(
    client: RawClient,
    seeds: Iterable[int],
    policy: ActsOnObservations,
    max_steps: int,
    *,
    deadline: float | None = None,
) -> list[Recording]:
    """Play one episode after the other in one session. seeds: may be lazy. For the other arguments see `play`."""
    session = _RecordedSession(client)
    player = _PolicyPlayer(policy, deadline)
    await EpisodeRunner(session, player, max_steps=max_steps).run({"seed": seed} for seed in seeds)
    return session.recordings


async def replay(client: RawClient, seed: int, actions: Sequence[dict[str, Any]]) -> Recording:
    """Play an episode with given actions, also after its end."""
    recording = await begin(client, seed)
    for action in actions:
        await take(client, recording, action)
    return recording


class _RawResult(NamedTuple):
    """A frame in the form that the runner expects."""

    observation: RawFrame
    done: bool
    reward: None = None
    """The checks read rewards from the frame."""


class _RecordedSession:
    """A raw client as a pool of one session. A refused action does not end the episode."""

    def __init__(self, client: RawClient) -> None:
        self.recordings: list[Recording] = []
        self._client = client

    def __len__(self) -> int:
        return 1

    async def reset(self, requests: Mapping[int, Mapping[str, Any]]) -> dict[int, _RawResult]:
        """Begin the next recording."""
        self.recordings.append(await begin(self._client, requests[0]["seed"]))
        return self._newest()

    async def step(self, actions: Mapping[int, Any]) -> dict[int, _RawResult]:
        """Send the action."""
        await take(self._client, self.recordings[-1], actions[0])
        return self._newest()

    def _newest(self) -> dict[int, _RawResult]:
        last = self.recordings[-1].last
        return {0: _RawResult(last, last.done)}


class _PolicyPlayer:
    """Lets a policy choose the actions until the deadline."""

    def __init__(self, policy: ActsOnObservations, deadline: float | None) -> None:
        self._policy = policy
        self._deadline = deadline

    async def act(self, pending: list[PendingAction]) -> list[Any]:
        """The policy's actions; None after the deadline."""
        if self._deadline is not None and asyncio.get_running_loop().time() > self._deadline:
            return [None] * len(pending)
        return [self._policy.select_action(turn.observation) for turn in pending]

    def on_result(self, episode: int, result: _RawResult) -> None:
        """The session records the result."""

    def on_refusal(self, episode: int, error: OpenEnvError, refusals: int) -> bool:
        """Raise the error: the session returns refusals as results."""
        raise error

    def on_failure(self, episode: int, error: OpenEnvError) -> None:
        """Raise the error."""
        raise error

    def on_step_limit(self, episode: int) -> None:
        """The recording ends."""


def difference(expected: Sequence[str], actual: Sequence[str], *, first: int = 0) -> str | None:
    """Describe the first difference of two sequences of frames in a line; None if they are equal byte for byte.

    first: number of the step that the first frames respond to; 0 is the reset.
    """
    for number, (one, other) in enumerate(zip(expected, actual, strict=True), start=first):
        if one != other:
            where = "reset" if number == 0 else f"step {number}"
            path, before, after = _first_difference(orjson.loads(one), orjson.loads(other))
            return f"{where}: {path.removeprefix('.data.') or 'the frame'} was {before}, then {after}"
    return None


def _first_difference(one: Any, other: Any, path: str = "") -> tuple[str, str, str]:
    """The path of the first difference of two JSON values, and both values there."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            if one[key] != other[key]:
                return _first_difference(one[key], other[key], f"{path}.{key}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            if left != right:
                return _first_difference(left, right, f"{path}.{index}")
    return path, _short(one), _short(other)


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
