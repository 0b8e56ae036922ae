"""Does an episode end, and what comes after?"""

import asyncio

from openenv.evaluation.quality.dialogue import Dialogue
from openenv.evaluation.quality.episodes import Played, begin, take
from openenv.evaluation.quality.findings import Finding, failed, passed, warned
from openenv.evaluation.quality.players import Player
from openenv.evaluation.quality.subject import Subject

_STEPS = 1000
_MOST_S = 4.0


async def ending(subject: Subject) -> Finding:
    """A random episode ends within 1,000 steps or four seconds; a step after its end is refused, or allowed by
    declaration."""
    async with subject.dialogue(extended=True) as dialogue:
        played = await _play_out(dialogue, subject.seed, subject.random_player("ending"))
        if not played.last.done:
            return warned(f"no end in {len(played.actions)} random steps: an endless episode",
                          "return done=True when the task is over, or bound the steps")  # fmt: skip
        length = f"an episode of random play ends after {len(played.actions)} steps"
        answer = await take(dialogue, played, played.actions[-1])
        if answer.is_error and answer.code == "EPISODE_OVER":
            return passed(f"{length}; a step after the end is refused")
        if answer.is_error and answer.code == "VALIDATION_ERROR":
            return failed(f"{length}; a step after it answers {answer.message}", "refuse it as EPISODE_OVER")
        if answer.is_error:
            return passed(f"{length}; a step after the end is refused as {answer.code}")
        if dialogue.is_extended:  # ours refuses it unless the author says otherwise
            return passed(f"{length}; steps after the end are allowed by declaration")
        return warned(f"{length}; a step after the end is answered as if nothing had happened",
                      "refuse it: an agent that misses the end learns from steps that mean nothing")  # fmt: skip


async def _play_out(dialogue: Dialogue, seed: int, player: Player) -> Played:
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _MOST_S
    played = await begin(dialogue, seed)
    while not played.last.done and len(played.actions) < _STEPS and loop.time() < give_up:
        await take(dialogue, played, player.action(played.last))
    return played
