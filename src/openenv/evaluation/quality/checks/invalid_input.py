"""Does a session survive invalid requests, and do errors reveal nothing of the server?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from openenv.core.env_server.runner.environment_calls import without_paths
from openenv.core.errors import ServerUnreachable
from openenv.evaluation.quality.probe.raw_client import ConnectionLost, RawClient, RawFrame
from openenv.evaluation.quality.probe.recordings import begin
from openenv.evaluation.quality.target import CheckResult, Target, failed, passed
from openenv.schema.samples import resolved

_LONG_TEXT = "x" * (1 << 20)
_FOREIGN_FIELD = "no_such_field"


@dataclass(frozen=True, slots=True)
class _Probe:
    """An invalid request."""

    name: str
    frame: str | bytes
    must_fail: bool = True
    """Whether the response must be an error."""


async def errors(target: Target) -> CheckResult:
    """Wrong fields, types and frames: each returns an error, and the session continues."""
    async with target.client() as client:
        first = await begin(client, target.seed)
    action = target.first_action_policy().select_action(first.last)
    probes = list(_probes(target, action))
    faults = await _faults(target, probes)
    if faults:
        return failed("; ".join(faults), "return an error frame that names the field, keep the "
                      "session, and write tracebacks and paths to the log only")  # fmt: skip
    return passed(f"{len(probes)} wrong requests ({', '.join(probe.name for probe in probes)}): each answered, the "
                  "session continues, no traceback, no path")  # fmt: skip


async def _faults(target: Target, probes: Sequence[_Probe]) -> list[str]:
    """A short description of each fault. Stops if the server is gone."""
    faults: list[str] = []
    for probe in probes:
        try:
            fault = await _fault(target, probe)
        except ServerUnreachable as error:
            return [*faults, f"before {probe.name} the server was gone: {error}"]
        if fault is not None:
            faults.append(fault)
    return faults


def _probes(target: Target, action: dict[str, Any]) -> Iterator[_Probe]:
    root = target.action_schema
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


async def _fault(target: Target, probe: _Probe) -> str | None:
    """A short description of the fault if the probe is sent in its own episode, or None."""
    async with target.client() as client:
        await begin(client, target.seed)
        try:
            await client.send(probe.frame)
            frame = await client.receive(probe.name)
            return _fault_of(frame, probe) or await _session_fault(client, probe)
        except ConnectionLost as error:
            return f"{probe.name}: {error}"


def _fault_of(frame: RawFrame, probe: _Probe) -> str | None:
    if not frame.is_error:
        return f"{probe.name} is accepted without an error" if probe.must_fail else None
    if "Traceback" in frame.raw:
        return f"{probe.name}: the client receives a traceback"
    sent = orjson.dumps(_without_input(frame.data)).decode()
    if without_paths(sent) != sent:
        return f"{probe.name}: the client receives a path of the server"
    return None


def _without_input(data: dict[str, Any]) -> dict[str, Any]:
    """The error without the parts of the request that it repeats."""
    rows = data.get("errors")
    if not isinstance(rows, list):
        return data
    kept = [{key: row[key] for key in row if key != "input"} if isinstance(row, dict) else row for row in rows]
    return {**data, "errors": kept}


async def _session_fault(client: RawClient, probe: _Probe) -> str | None:
    state = await client.request("state")
    return f"after {probe.name} the session returns {state.message}" if state.is_error else None
