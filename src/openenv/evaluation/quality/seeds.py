"""Do equal seeds give equal episodes, byte for byte, whatever happened before and wherever the environment runs?"""

import asyncio

from openenv.evaluation.quality.dialogue import Address
from openenv.evaluation.quality.episodes import Played, difference, play, replay
from openenv.evaluation.quality.findings import Finding, failed, passed, skipped
from openenv.evaluation.quality.subject import Subject

_EPISODES = 8
_MOST_S = 2.0
STEPS = 30
_OTHER_SEEDS = 8
_OWN_GENERATOR = "draw everything from one random.Random(seed) that reset() makes, never from a global generator"


async def recorded(subject: Subject) -> list[Played]:
    """Random episodes of the first seeds, each in a session of its own: eight, or two and more in two seconds."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _MOST_S
    episodes: list[Played] = []
    for number in range(_EPISODES):
        if len(episodes) >= 2 and loop.time() > give_up:
            break
        async with subject.dialogue() as dialogue:
            player = subject.random_player(f"seeds {number}")
            episodes.append(await play(dialogue, subject.seed + number, player, STEPS))
    return episodes


async def same_seed(subject: Subject) -> Finding:
    """The same seed in two fresh sessions."""
    episodes = await recorded(subject)
    for number, episode in enumerate(episodes):
        async with subject.dialogue() as dialogue:
            again = await replay(dialogue, subject.seed + number, episode.actions)
        parted = difference(episode.frames, again.frames)
        if parted:
            return failed(f"seed {subject.seed + number} in two fresh sessions: {parted}", _OWN_GENERATOR)
    return passed(f"{len(episodes)} episodes of up to {STEPS} steps, equal byte for byte in two fresh sessions")


async def same_seed_again(subject: Subject) -> Finding:
    """The same seeds in one session, one after the other and in another order."""
    episodes = await recorded(subject)
    async with subject.dialogue() as dialogue:
        for number in (*reversed(range(len(episodes))), 0):
            again = await replay(dialogue, subject.seed + number, episodes[number].actions)
            parted = difference(episodes[number].frames, again.frames)
            if parted:
                return failed(f"seed {subject.seed + number} in a session that has played before: {parted}",
                              "let reset() make everything anew: nothing of the last episode may stay")  # fmt: skip
    return passed(f"{len(episodes) + 1} episodes, equal byte for byte in a session that has played before")


async def same_seed_elsewhere(subject: Subject) -> Finding:
    """The same seeds in another process of the server."""
    if subject.start_another is None:
        return skipped("needs to start a second server: check the environment's folder instead of a URL")
    episodes = await recorded(subject)
    manager = subject.start_another()
    server = await asyncio.to_thread(manager.__enter__)
    try:
        address = Address(base_url=server.base_url, answer_s=subject.address.answer_s, headers=subject.address.headers)
        other = Subject(address=address, seed=subject.seed, schemas=subject.schemas)
        for number, episode in enumerate(episodes):
            async with other.dialogue() as dialogue:
                again = await replay(dialogue, subject.seed + number, episode.actions)
            parted = difference(episode.frames, again.frames)
            if parted:
                return failed(f"seed {subject.seed + number} in another process: {parted}",
                              "use nothing that differs between processes: hash(), sets of strings, the clock, the "
                              "process id")  # fmt: skip
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)
    return passed(f"{len(episodes)} episodes, equal byte for byte in another server process")


async def other_seeds(subject: Subject) -> Finding:
    """Different seeds give different episodes at least once; an environment without randomness is none the worse."""
    seen = set()
    async with subject.dialogue() as dialogue:
        for number in range(_OTHER_SEEDS):
            player = subject.random_player("other seeds")
            seen.add("\n".join((await play(dialogue, subject.seed + number, player, STEPS)).frames))
    if len(seen) == 1:
        return passed(f"{_OTHER_SEEDS} seeds give one and the same episode: there is no randomness here")
    return passed(f"{_OTHER_SEEDS} seeds give {len(seen)} different episodes")
