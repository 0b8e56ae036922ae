"""Do reset, step, state and close do what they say?"""

from openenv.evaluation.quality.dialogue import Dialogue
from openenv.evaluation.quality.episodes import EPISODE_ID, begin, play
from openenv.evaluation.quality.findings import Finding, failed, passed, warned
from openenv.evaluation.quality.subject import Subject

_STEPS = 5
_GOODBYE = (1000, 1001)


async def verbs(subject: Subject) -> Finding:
    """An episode has the identity that it was given and counts its steps; a closed session closes its connection."""
    async with subject.dialogue() as dialogue:
        wrong = await _wrong_state(dialogue, subject)
        if wrong is not None:
            return wrong
        code = await dialogue.goodbye_code()
    if code not in _GOODBYE:
        return failed(f"`close` closes the connection with {code}", "close with 1000, as the protocol says")
    return passed("reset, step, state and close; episode_id comes back, step_count grows and starts anew")


async def _wrong_state(dialogue: Dialogue, subject: Subject) -> Finding | None:
    played = await play(dialogue, subject.seed, subject.random_player("verbs"), _STEPS)
    state = (await dialogue.expect("state")).data
    if state.get("episode_id") != EPISODE_ID:
        return failed(f"reset(episode_id={EPISODE_ID!r}), then state.episode_id is {state.get('episode_id')!r}",
                      "keep the episode_id of reset() in the state")  # fmt: skip
    counted = state.get("step_count")
    if not isinstance(counted, int) or counted < played.num_accepted:
        return failed(f"step_count is {counted!r} after {played.num_accepted} steps", "add 1 to step_count in step()")
    await begin(dialogue, subject.seed)
    anew = (await dialogue.expect("state")).data.get("step_count")
    if anew != 0:
        return warned(f"step_count is {anew!r} after a reset", "set step_count to 0 in reset()")
    return None
