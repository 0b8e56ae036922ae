"""Do sessions keep out of one another's episodes?"""

import asyncio
import contextlib
from contextlib import AsyncExitStack

from openenv.evaluation.quality.dialogue import Dialogue, Full
from openenv.evaluation.quality.episodes import Played, begin, difference, play, replay, take
from openenv.evaluation.quality.findings import Finding, failed, passed, skipped
from openenv.evaluation.quality.seeds import STEPS, recorded
from openenv.evaluation.quality.subject import Subject

_NOISY = 8
_REMEDY = "keep everything of an episode in the instance: no class attributes, no module globals, no shared files"


async def isolation(subject: Subject) -> Finding:
    """Two interleaved sessions, then one beside eight that play at random, see what they see when alone."""
    one, other, *_ = await recorded(subject)
    try:
        async with subject.dialogue() as left, subject.dialogue() as right:
            parted = await _interleaved(subject, (left, one), (right, other))
    except Full as error:
        return skipped(f"the server holds one session: {error}")
    if parted:
        return failed(f"two interleaved sessions: {parted}", _REMEDY)
    num_noisy, parted = await _beside_noise(subject, one)
    if parted:
        return failed(f"beside {num_noisy} other sessions: {parted}", _REMEDY)
    return passed(f"two interleaved sessions, and one beside {num_noisy} noisy ones, play as they do alone")


async def _interleaved(subject: Subject, *pairs: tuple[Dialogue, Played]) -> str | None:
    again = [await begin(dialogue, subject.seed + number) for number, (dialogue, _) in enumerate(pairs)]
    for turn in range(max(len(alone.actions) for _, alone in pairs)):
        for (dialogue, alone), now in zip(pairs, again, strict=True):
            if turn < len(alone.actions):
                await take(dialogue, now, alone.actions[turn])
    partings = (difference(alone.frames, now.frames) for (_, alone), now in zip(pairs, again, strict=True))
    return next((parting for parting in partings if parting), None)


async def _beside_noise(subject: Subject, alone: Played) -> tuple[int, str | None]:
    """How many sessions played beside the one, and where it went another way."""
    async with AsyncExitStack() as stack:
        dialogue = await stack.enter_async_context(subject.dialogue())
        noisy = []
        with contextlib.suppress(Full):  # as many as the server holds
            for number in range(_NOISY):
                noisy.append((number, await stack.enter_async_context(subject.dialogue())))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_play_on(subject, other, number)) for number, other in noisy]
            again = await replay(dialogue, subject.seed, alone.actions)
            for task in tasks:
                task.cancel()
    return len(noisy), difference(alone.frames, again.frames)


async def _play_on(subject: Subject, dialogue: Dialogue, number: int) -> None:
    """Random episodes until cancelled."""
    player = subject.random_player(f"noise {number}")
    seed = 1000 * (number + 1)
    while True:
        await play(dialogue, seed, player, STEPS)
        seed += 1
