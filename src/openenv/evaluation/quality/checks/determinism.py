"""Do equal seeds, and saved, restored and forked episodes, continue equally in any session and process?"""

import asyncio
from dataclasses import replace

from openenv.evaluation.quality.probe.raw_client import RawClient, ServerAddress
from openenv.evaluation.quality.probe.recordings import Recording, begin, difference, play, replay, take
from openenv.evaluation.quality.target import CheckResult, Target, failed, passed, skipped

_EPISODES = 8
_TIME_LIMIT_S = 2.0
STEPS = 30
_OTHER_SEEDS = 8
_OWN_GENERATOR = (
    "draw everything from one random.Random(seed) that reset() makes, never from a global generator; write no address, "
    "time or id of this run into a text, also not into that of an error"
)


async def recorded(target: Target) -> list[Recording]:
    """Random episodes of the first seeds, each in its own session: eight, or at least two if they take two seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _TIME_LIMIT_S
    episodes: list[Recording] = []
    for number in range(_EPISODES):
        if len(episodes) >= 2 and loop.time() > deadline:
            break
        async with target.client() as client:
            policy = target.random_policy(f"seeds {number}")
            episodes.append(await play(client, target.seed + number, policy, STEPS))
    return episodes


async def same_seed(target: Target) -> CheckResult:
    """The same seeds in two new sessions."""
    episodes = await recorded(target)
    for number, episode in enumerate(episodes):
        async with target.client() as client:
            again = await replay(client, target.seed + number, episode.actions)
        change = difference(episode.frames, again.frames)
        if change:
            return failed(f"seed {target.seed + number} in two new sessions: {change}", _OWN_GENERATOR)
    return passed(f"{len(episodes)} episodes of up to {STEPS} steps, equal byte for byte in two new sessions")


async def same_seed_again(target: Target) -> CheckResult:
    """The same seeds in one session, in another order."""
    episodes = await recorded(target)
    async with target.client() as client:
        for number in (*reversed(range(len(episodes))), 0):
            again = await replay(client, target.seed + number, episodes[number].actions)
            change = difference(episodes[number].frames, again.frames)
            if change:
                return failed(f"seed {target.seed + number} in a used session: {change}",
                              "let reset() create all state anew: nothing of the last episode may remain")  # fmt: skip
    return passed(f"{len(episodes) + 1} episodes, equal byte for byte in a used session")


async def same_seed_elsewhere(target: Target) -> CheckResult:
    """The same seeds in another server process."""
    if target.start_another is None:
        return skipped("needs to start a second server: check the environment's folder instead of a URL")
    episodes = await recorded(target)
    async with target.start_another() as server:
        address = ServerAddress(
            base_url=server.base_url, timeout_s=target.address.timeout_s, headers=target.address.headers
        )
        other = replace(target, address=address, server=None, start_another=None)
        for number, episode in enumerate(episodes):
            async with other.client() as client:
                again = await replay(client, target.seed + number, episode.actions)
            change = difference(episode.frames, again.frames)
            if change:
                return failed(f"seed {target.seed + number} in another process: {change}",
                              "use nothing that differs between processes: hash(), sets of strings, the clock, the "
                              "process id")  # fmt: skip
    return passed(f"{len(episodes)} episodes, equal byte for byte in another server process")


async def other_seeds(target: Target) -> CheckResult:
    """Different seeds give different episodes, unless the environment has no randomness."""
    seen = set()
    async with target.client() as client:
        for number in range(_OTHER_SEEDS):
            policy = target.random_policy("other seeds")
            seen.add("\n".join((await play(client, target.seed + number, policy, STEPS)).frames))
    if len(seen) == 1:
        return passed(
            f"{_OTHER_SEEDS} seeds give the same episode of random play: it has no randomness, or random play sees none"
        )
    return passed(f"{_OTHER_SEEDS} seeds give {len(seen)} different episodes")


_REMEDY = "save_state() must contain everything that the future depends on: board, random numbers, step count, rewards"


async def snapshots(target: Target) -> CheckResult:
    """Save in the middle of an episode and continue; restore and continue; fork and continue."""
    lengths = [len(episode.actions) for episode in await recorded(target)]
    number = lengths.index(max(lengths))
    async with target.client(extended=True) as client:
        if not client.is_extended:
            return skipped("the server uses the published dialect, which has no snapshots")
        whole = await play(client, target.seed + number, target.random_policy(f"seeds {number}"), STEPS)
        middle = len(whole.actions) // 2
        await begin(client, target.seed + number)
        for action in whole.actions[:middle]:
            await client.request("step", action)
        saved = await client.request("save")
        if saved.is_error and saved.code == "NOT_SUPPORTED":
            return skipped("the environment does not implement save_state and load_state")
        if saved.is_error:
            return failed(f"save: {saved.message}", _REMEDY)
        change = await _continuation_differs(client, whole, middle)
        if change:
            return failed(f"the saved session continues differently: {change}", _REMEDY)
        await client.require("restore", {"token": saved.data["token"]})
        change = await _continuation_differs(client, whole, middle)
        if change:
            return failed(f"after restore: {change}", _REMEDY)
        await client.require("restore", {"token": saved.data["token"]})
        return await _forked(target, client, whole, middle)


async def _forked(target: Target, client: RawClient, whole: Recording, middle: int) -> CheckResult:
    point = f"after {middle} of {len(whole.actions)} steps"
    forked = await client.request("fork", {"count": 1})
    if forked.is_error and forked.code == "CAPACITY_REACHED":
        return passed(f"equal futures {point}: saved, restored; the server holds no session for a fork")
    if forked.is_error:
        return failed(f"fork: {forked.message}", _REMEDY)
    async with target.client(extended=True, session_id=forked.data["session_ids"][0]) as branch:
        change = await _continuation_differs(branch, whole, middle)
    if change:
        return failed(f"in a fork: {change}", _REMEDY)
    return passed(f"equal futures {point}: saved, restored, forked")


async def _continuation_differs(client: RawClient, whole: Recording, middle: int) -> str | None:
    """The first difference between the rest of the episode and the recording, or None."""
    rest = Recording([])
    for action in whole.actions[middle:]:
        await take(client, rest, action)
    return difference(whole.frames[middle + 1 :], rest.frames, first=middle + 1)
