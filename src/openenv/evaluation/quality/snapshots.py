"""Do a saved, a restored and a forked episode have equal futures?"""

from openenv.evaluation.quality.dialogue import Dialogue
from openenv.evaluation.quality.episodes import Played, begin, difference, play, take
from openenv.evaluation.quality.findings import Finding, failed, passed, skipped
from openenv.evaluation.quality.seeds import STEPS, recorded
from openenv.evaluation.quality.subject import Subject

_REMEDY = "save_state() must hold everything that the future depends on: board, random numbers, step count, rewards"


async def snapshots(subject: Subject) -> Finding:
    """Save in the middle of an episode, play on, restore, play on again; fork, and play on there."""
    lengths = [len(episode.actions) for episode in await recorded(subject)]
    number = lengths.index(max(lengths))
    async with subject.dialogue(extended=True) as dialogue:
        if not dialogue.is_extended:
            return skipped("the server speaks the published dialect, which has no snapshots")
        whole = await play(dialogue, subject.seed + number, subject.random_player(f"seeds {number}"), STEPS)
        middle = len(whole.actions) // 2
        await begin(dialogue, subject.seed + number)
        for action in whole.actions[:middle]:
            await dialogue.ask("step", action)
        saved = await dialogue.ask("save")
        if saved.is_error and saved.code == "NOT_SUPPORTED":
            return skipped("the environment writes no save_state and load_state")
        if saved.is_error:
            return failed(f"save: {saved.message}", _REMEDY)
        parted = await _future_parts(dialogue, whole, middle)
        if parted:
            return failed(f"the saved session itself goes on otherwise: {parted}", _REMEDY)
        await dialogue.expect("restore", {"token": saved.data["token"]})
        parted = await _future_parts(dialogue, whole, middle)
        if parted:
            return failed(f"after restore: {parted}", _REMEDY)
        await dialogue.expect("restore", {"token": saved.data["token"]})
        return await _forked(subject, dialogue, whole, middle)


async def _forked(subject: Subject, dialogue: Dialogue, whole: Played, middle: int) -> Finding:
    ways = f"after {middle} of {len(whole.actions)} steps"
    forked = await dialogue.ask("fork", {"count": 1})
    if forked.is_error and forked.code == "CAPACITY_REACHED":
        return passed(f"equal futures {ways}: saved, restored; the server holds no session for a fork")
    if forked.is_error:
        return failed(f"fork: {forked.message}", _REMEDY)
    async with subject.dialogue(extended=True, session_id=forked.data["session_ids"][0]) as branch:
        parted = await _future_parts(branch, whole, middle)
    if parted:
        return failed(f"in a fork: {parted}", _REMEDY)
    return passed(f"equal futures {ways}: saved, restored, forked")


async def _future_parts(dialogue: Dialogue, whole: Played, middle: int) -> str | None:
    """Where the rest of the episode goes another way than it did at first."""
    rest = Played([])
    for action in whole.actions[middle:]:
        await take(dialogue, rest, action)
    return difference(whole.frames[middle + 1 :], rest.frames, first=middle + 1)
