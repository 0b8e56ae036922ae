"""Do the messages match the schemas that the server gives out?"""

import importlib.util
from collections.abc import Iterator, Mapping
from typing import Any

from openenv.evaluation.quality.dialogue import Answer
from openenv.evaluation.quality.episodes import play
from openenv.evaluation.quality.findings import Finding, failed, passed, skipped
from openenv.evaluation.quality.subject import Subject

_EPISODES = 8
_STEPS = 20


async def schema(subject: Subject) -> Finding:
    """The schemas are JSON Schema, and what eight episodes show matches them."""
    if importlib.util.find_spec("jsonschema") is None:
        return skipped("needs the library jsonschema: pip install 'openenv-rl[check]'")
    wrong = _wrong_schema(subject.schemas)
    if wrong:
        return failed(wrong, "let pydantic write the schemas (create_app does)")
    seen = 0
    async with subject.dialogue() as dialogue:
        for number in range(_EPISODES):
            player = subject.random_player(f"schema {number}")
            played = await play(dialogue, subject.seed + number, player, _STEPS)
            state = await dialogue.expect("state")
            for name, answer in _messages(subject.schemas, played.answers, state):
                seen += 1
                mismatch = _mismatch(subject.schemas[name], _instance(answer))
                if mismatch:
                    return failed(f"{name}: {mismatch}", f"return what the {name} class declares, or declare it")
    return passed(f"{seen} observations and states match")


def _messages(schemas: Mapping[str, Any], answers: list[Answer], state: Answer) -> Iterator[tuple[str, Answer]]:
    """Each message with the name of its schema; errors are left out."""
    first, *rest = answers
    yield ("reset_observation" if schemas.get("reset_observation") else "observation"), first
    yield from (("observation", answer) for answer in rest if not answer.is_error)
    yield "state", state


def _instance(answer: Answer) -> dict[str, Any]:
    """The message as its class sees it: the wire carries reward and done beside the observation."""
    if answer.kind == "state":
        return answer.data
    return {**answer.observation, "reward": answer.data.get("reward"), "done": answer.data.get("done")}


def _wrong_schema(schemas: Mapping[str, Any]) -> str | None:
    from jsonschema import Draft202012Validator, SchemaError  # of the extra `check`

    for name in ("action", "observation", "state"):
        try:
            Draft202012Validator.check_schema(schemas[name])
        except SchemaError as error:
            return f"the schema of {name} is no JSON Schema: {error.message[:200]}"
    return None


def _mismatch(schema: Mapping[str, Any], instance: Any) -> str | None:
    from jsonschema import Draft202012Validator  # of the extra `check`

    error = next(iter(Draft202012Validator(schema).iter_errors(instance)), None)
    return None if error is None else f"{'.'.join(map(str, error.path)) or 'message'}: {error.message[:200]}"
