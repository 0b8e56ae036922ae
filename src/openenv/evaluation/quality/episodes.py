"""Episodes as the wire shows them: every frame, to be compared byte for byte."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from openenv.evaluation.quality.dialogue import Answer, Dialogue
from openenv.evaluation.quality.players import Player

EPISODE_ID = "openenv-check"
"""Said at every reset, so that an episode's identity is no difference between two."""


@dataclass(slots=True)
class Played:
    """An episode, to its end or as far as it was played."""

    answers: list[Answer]
    """The answer to the reset, then one for each action."""
    actions: list[dict[str, Any]] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    """Seconds that each step took, on the way there and back included."""

    @property
    def last(self) -> Answer:
        """The newest observation; errors are no observations."""
        return next(answer for answer in reversed(self.answers) if not answer.is_error)

    @property
    def frames(self) -> list[str]:
        """What the server sent, without ids."""
        return [answer.comparable for answer in self.answers]

    @property
    def num_accepted(self) -> int:
        """Actions that the environment took."""
        return sum(not answer.is_error for answer in self.answers[1:])

    @property
    def rewards(self) -> list[Any]:
        """The reward of each action that was taken."""
        return [answer.data.get("reward") for answer in self.answers[1:] if not answer.is_error]


async def begin(dialogue: Dialogue, seed: int) -> Played:
    """A new episode before its first action. Raises Refused when the reset is."""
    return Played([await dialogue.expect("reset", {"seed": seed, "episode_id": EPISODE_ID})])


async def take(dialogue: Dialogue, played: Played, action: dict[str, Any]) -> Answer:
    """Take an action and keep what came."""
    began = time.perf_counter()
    answer = await dialogue.ask("step", action)
    played.step_s.append(time.perf_counter() - began)
    played.actions.append(action)
    played.answers.append(answer)
    return answer


async def play(dialogue: Dialogue, seed: int, player: Player, max_steps: int) -> Played:
    """An episode by a player, to its end or for `max_steps` actions, those that were refused included."""
    played = await begin(dialogue, seed)
    for _ in range(max_steps):
        if played.last.done:
            break
        await take(dialogue, played, player.action(played.last))
    return played


async def replay(dialogue: Dialogue, seed: int, actions: Sequence[dict[str, Any]]) -> Played:
    """An episode of given actions, whatever they lead to."""
    played = await begin(dialogue, seed)
    for action in actions:
        await take(dialogue, played, action)
    return played


def difference(expected: Sequence[str], seen: Sequence[str], *, first: int = 0) -> str | None:
    """Where two sequences of frames part, in a line; None when they are equal byte for byte.

    first: number of the step that the first frames answer; 0 is the reset.
    """
    for number, (one, other) in enumerate(zip(expected, seen, strict=True), start=first):
        if one != other:
            where = "reset" if number == 0 else f"step {number}"
            path, before, after = _parting(orjson.loads(one), orjson.loads(other))
            return f"{where}: {path.removeprefix('.data.') or 'the frame'} was {before}, then {after}"
    return None


def _parting(one: Any, other: Any, path: str = "") -> tuple[str, str, str]:
    """The path of the first difference of two JSON values, and both values there."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            if one[key] != other[key]:
                return _parting(one[key], other[key], f"{path}.{key}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            if left != right:
                return _parting(left, right, f"{path}.{index}")
    return path, _short(one), _short(other)


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
