"""Does the environment take the actions that its own schema and observations name?"""

from openenv.evaluation.quality.episodes import begin, take
from openenv.evaluation.quality.findings import Finding, failed, passed, warned
from openenv.evaluation.quality.players import legal_actions
from openenv.evaluation.quality.subject import Subject

_ACTIONS = 20
_REMEDY = "name the legal actions in the observation (legal_actions), or bound the action's fields (Literal, ge, le)"


async def actions(subject: Subject) -> Finding:
    """Twenty actions made from what the observations name as legal, else from the action's schema."""
    player = subject.random_player("actions")
    refused, is_named, reason = 0, False, ""
    async with subject.dialogue() as dialogue:
        played = await begin(dialogue, subject.seed)
        for _ in range(_ACTIONS):
            if played.last.done:
                played = await begin(dialogue, subject.seed + 1)
                if played.last.done:
                    return failed("an episode is done before its first action", "return done=False from reset()")
            is_named = is_named or bool(legal_actions(played.last))
            answer = await take(dialogue, played, player.action(played.last))
            if answer.is_error:
                refused, reason = refused + 1, answer.message
    made_from = "the legal actions that observations name" if is_named else "the action's schema"
    if refused == _ACTIONS:
        return failed(f"each of {refused} actions made from {made_from} was refused: {reason}", _REMEDY)
    if refused:
        return warned(f"{refused} of {_ACTIONS} actions made from {made_from} were refused: {reason}", _REMEDY)
    return passed(f"{_ACTIONS} actions made from {made_from} were taken")
