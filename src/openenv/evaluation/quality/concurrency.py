"""Do eight sessions play at the same time?"""

import asyncio

from openenv.evaluation.quality.dialogue import Full
from openenv.evaluation.quality.episodes import play
from openenv.evaluation.quality.findings import Finding, failed, passed, warned
from openenv.evaluation.quality.subject import Subject

SESSIONS = 8
_STEPS = 30


async def concurrency(subject: Subject) -> Finding:
    """Eight sessions finish side by side, or the server says that it holds fewer."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_finishes(subject, number)) for number in range(SESSIONS)]
    finished = sum(task.result() for task in tasks)
    if finished == SESSIONS:
        return passed(f"{SESSIONS} sessions at the same time, all finished")
    if finished == 0:
        return failed(f"none of {SESSIONS} sessions at the same time could be opened", "hold at least one session")
    return warned(f"{finished} of {SESSIONS} sessions finished, the others were told that the server is full",
                  "set SUPPORTS_CONCURRENT_SESSIONS or max_sessions: training plays many at a time")  # fmt: skip


async def _finishes(subject: Subject, number: int) -> bool:
    """False when the server is full."""
    try:
        async with subject.dialogue(waits=False) as dialogue:
            await play(dialogue, subject.seed + number, subject.random_player(f"concurrency {number}"), _STEPS)
    except Full:
        return False
    return True
