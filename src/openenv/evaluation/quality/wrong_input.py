"""Does a session survive what a client should not send, without telling secrets of the server?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from openenv.core.env_server.authors_code import without_paths
from openenv.core.errors import ServerUnreachable
from openenv.evaluation.quality.dialogue import Answer, Dialogue, HungUp
from openenv.evaluation.quality.episodes import begin
from openenv.evaluation.quality.findings import Finding, failed, passed
from openenv.evaluation.quality.schema_samples import resolved
from openenv.evaluation.quality.subject import Subject

_LONG_TEXT = "x" * (1 << 20)
_FOREIGN_FIELD = "no_such_field"


@dataclass(frozen=True, slots=True)
class _Probe:
    """Something wrong to send."""

    name: str
    frame: str | bytes
    must_fail: bool = True
    """Whether an answer other than an error is wrong too."""


async def errors(subject: Subject) -> Finding:
    """Wrong fields, wrong types, wrong frames: each is answered with an error, and the session goes on."""
    async with subject.dialogue() as dialogue:
        first = await begin(dialogue, subject.seed)
    action = subject.first_action_player().action(first.last)
    probes = list(_probes(subject, action))
    faults = await _faults(subject, probes)
    if faults:
        return failed("; ".join(faults), "answer what is wrong with an error frame that names the field, keep the "
                      "session, and keep tracebacks and paths in the log")  # fmt: skip
    return passed(f"{len(probes)} wrong requests ({', '.join(probe.name for probe in probes)}): each answered, the "
                  "session lives, no traceback, no path")  # fmt: skip


async def _faults(subject: Subject, probes: Sequence[_Probe]) -> list[str]:
    """What goes wrong, in a few words each; the last one may be that the server is gone."""
    faults: list[str] = []
    for probe in probes:
        try:
            fault = await _fault(subject, probe)
        except ServerUnreachable as error:
            return [*faults, f"before {probe.name} the server was gone: {error}"]
        if fault is not None:
            faults.append(fault)
    return faults


def _probes(subject: Subject, action: dict[str, Any]) -> Iterator[_Probe]:
    root = subject.action_schema
    schema = resolved(root, root)
    properties = {name: resolved(root, part) for name, part in schema.get("properties", {}).items()}
    takes_any = schema.get("additionalProperties", True) is not False
    yield _step("unknown field", {**action, _FOREIGN_FIELD: 1}, must_fail=not takes_any)
    required = [name for name in schema.get("required", ()) if name in properties]
    if required:
        yield _step("missing field", {name: value for name, value in action.items() if name != required[0]})
    numbers = [name for name, part in properties.items() if part.get("type") in ("integer", "number", "boolean")]
    texts = [name for name, part in properties.items() if part.get("type") == "string"]
    if numbers or texts:
        yield _step("wrong type", {**action, (numbers or texts)[0]: {"not": ["of", "this", "type"]}})
    free = [name for name in texts if not properties[name].keys() & {"enum", "const"}]
    long = {**action, free[0]: _LONG_TEXT} if free else {**action, _FOREIGN_FIELD: _LONG_TEXT}
    yield _step("1 MiB of text", long, must_fail=False)
    yield _Probe("unknown message type", '{"type":"fly"}')
    yield _Probe("no JSON", '{"type":"step"')
    yield _Probe("JSON array", '[{"type":"state"}]')
    yield _Probe("binary frame", b'\x00{"type":"state"}\xff')


def _step(name: str, data: dict[str, Any], *, must_fail: bool = True) -> _Probe:
    return _Probe(name, orjson.dumps({"type": "step", "data": data}).decode(), must_fail)


async def _fault(subject: Subject, probe: _Probe) -> str | None:
    """What goes wrong when the probe is sent in an episode of its own, in a few words."""
    async with subject.dialogue() as dialogue:
        await begin(dialogue, subject.seed)
        try:
            await dialogue.send(probe.frame)
            answer = await dialogue.receive(probe.name)
            return _fault_of(answer, probe) or await _death(dialogue, probe)
        except HungUp as error:
            return f"{probe.name}: {error}"


def _fault_of(answer: Answer, probe: _Probe) -> str | None:
    if not answer.is_error:
        return f"{probe.name} is taken without an error" if probe.must_fail else None
    if "Traceback" in answer.raw:
        return f"{probe.name}: the client sees a traceback"
    said = orjson.dumps(_without_input(answer.data)).decode()
    if without_paths(said) != said:
        return f"{probe.name}: the client sees a path of the server"
    return None


def _without_input(data: dict[str, Any]) -> dict[str, Any]:
    """The error without what it repeats of the request."""
    rows = data.get("errors")
    if not isinstance(rows, list):
        return data
    kept = [{key: row[key] for key in row if key != "input"} if isinstance(row, dict) else row for row in rows]
    return {**data, "errors": kept}


async def _death(dialogue: Dialogue, probe: _Probe) -> str | None:
    state = await dialogue.ask("state")
    return f"after {probe.name} the session answers {state.message}" if state.is_error else None
