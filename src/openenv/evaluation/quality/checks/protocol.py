"""Does the server respond, accept the actions that it names, and implement its verbs as its schemas declare?

All other checks build on the first three.
"""

import importlib.util
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import httpx

from openenv.auto.schema_client import listed_tools
from openenv.core.env_server.mcp_types import CallToolObservation
from openenv.core.errors import MessageTooBig
from openenv.evaluation.quality.probe.raw_client import RawClient, RawFrame
from openenv.evaluation.quality.probe.recordings import EPISODE_ID, begin, play, take
from openenv.evaluation.quality.probe.sample_policies import legal_of
from openenv.evaluation.quality.target import CheckResult, Target, failed, passed, skipped, warned
from openenv.installation import install_line
from openenv.schema.legal_actions import REFUSED_REMEDY

_MESSAGES = ("action", "observation", "state")
_NUM_ACTIONS = 20
_VERB_STEPS = 5
_NORMAL_CLOSURE = (1000, 1001)


async def reachable(target: Target) -> CheckResult:
    """`/health` and `/schema` respond, and `/ws` opens."""
    address = target.address
    async with target.http() as http:
        try:
            health, schema = await http.get("/health"), await http.get("/schema")
        except httpx.HTTPError as error:
            seen = f"no response at {address.base_url}: {error or type(error).__name__}"
            return failed(seen, "start the server, or correct the URL")
    if health.status_code != 200:
        return failed(f"/health returns {health.status_code}", "return 200 as long as the server works")
    if schema.status_code == 401:
        return failed("the server requires a token", "set OPENENV_TOKEN to the server's token")
    schemas = _schemas(schema)
    if schemas is None:
        return failed(f"/schema returns {schema.status_code} without action, observation and state",
                      "serve the environment with create_app(...)")  # fmt: skip
    target.schemas = schemas
    async with target.http() as http:
        try:
            target.tools = await listed_tools(http, schemas["action"])
        except (httpx.HTTPError, MessageTooBig, ValueError) as error:
            return failed(f"/mcp does not list the tools: {error}", "derive from MCPEnvironment")
    async with target.client():
        return passed(f"healthy at {address.base_url}")


def _schemas(response: httpx.Response) -> dict[str, Any] | None:
    try:
        schemas = response.json()
    except ValueError:
        return None
    complete = isinstance(schemas, dict) and all(isinstance(schemas.get(name), dict) for name in _MESSAGES)
    return schemas if complete else None


async def actions(target: Target) -> CheckResult:
    """The environment accepts twenty actions, made from the legal ones that it names, else from the action's schema."""
    policy = target.random_policy("actions")
    refused, is_named, reason = 0, False, ""
    async with target.client() as client:
        recording = await begin(client, target.seed)
        for _ in range(_NUM_ACTIONS):
            if recording.last.done:
                recording = await begin(client, target.seed + 1)
                if recording.last.done:
                    return failed("an episode is done before its first action", "return done=False from reset()")
            is_named = is_named or bool(legal_of(recording.last))
            frame = await take(client, recording, policy.select_action(recording.last))
            if frame.is_error:
                refused, reason = refused + 1, frame.message
    made_from = "the legal actions that observations name" if is_named else "the action's schema"
    if refused == _NUM_ACTIONS:
        return failed(f"each of {refused} actions made from {made_from} was refused: {reason}", REFUSED_REMEDY)
    if refused:
        return warned(
            f"{refused} of {_NUM_ACTIONS} actions made from {made_from} were refused: {reason}", REFUSED_REMEDY
        )
    return passed(f"{_NUM_ACTIONS} actions made from {made_from} were accepted")


async def verbs(target: Target) -> CheckResult:
    """The state has the episode's id and counts its steps; `close` closes the connection."""
    async with target.client() as client:
        wrong = await _wrong_state(client, target)
        if wrong is not None:
            return wrong
        code = await client.close_code()
    if code not in _NORMAL_CLOSURE:
        return failed(f"`close` closes the connection with {code}", "close with 1000, as the protocol requires")
    return passed("reset, step, state and close; state has the episode_id, step_count grows and restarts at 0")


async def _wrong_state(client: RawClient, target: Target) -> CheckResult | None:
    recording = await play(client, target.seed, target.random_policy("verbs"), _VERB_STEPS)
    state = (await client.require("state")).data
    if state.get("episode_id") != EPISODE_ID:
        return failed(f"reset(episode_id={EPISODE_ID!r}), then state.episode_id is {state.get('episode_id')!r}",
                      "keep the episode_id of reset() in the state")  # fmt: skip
    count = state.get("step_count")
    if not isinstance(count, int) or count < recording.num_accepted:
        return failed(f"step_count is {count!r} after {recording.num_accepted} steps", "add 1 to step_count in step()")
    await begin(client, target.seed)
    restarted = (await client.require("state")).data.get("step_count")
    if restarted != 0:
        return warned(f"step_count is {restarted!r} after a reset", "set step_count to 0 in reset()")
    return None


_EPISODES = 8
_STEPS = 20
_RESULT = "result of a tool"
_TOOL_RESULT = CallToolObservation.model_json_schema()


async def schema(target: Target) -> CheckResult:
    """The schemas are valid JSON Schema, and the messages of eight episodes match them."""
    if importlib.util.find_spec("jsonschema") is None:
        return skipped(f"needs the library jsonschema: {install_line('check')}")
    import jsonschema  # of the extra `check`

    wrong = _wrong_schema(jsonschema, target.schemas)
    if wrong:
        return failed(wrong, "let pydantic generate the schemas, as create_app does")
    num_messages = 0
    async with target.client() as client:
        for number in range(_EPISODES):
            policy = target.random_policy(f"schema {number}")
            recording = await play(client, target.seed + number, policy, _STEPS)
            state = await client.require("state")
            for name, frame in _messages(target, recording.responses, state):
                num_messages += 1
                described = _TOOL_RESULT if name == _RESULT else target.schemas[name]
                mismatch = _mismatch(jsonschema, described, _instance(frame))
                if mismatch:
                    return failed(f"{name}: {mismatch}", f"return what the {name} class declares, or declare it")
    return passed(f"{num_messages} observations and states match")


def _messages(target: Target, frames: list[RawFrame], state: RawFrame) -> Iterator[tuple[str, RawFrame]]:
    """Each message with the name of its schema, without errors."""
    first, *rest = frames
    yield ("reset_observation" if target.schemas.get("reset_observation") else "observation"), first
    for frame in rest:
        if not frame.is_error:
            yield (_RESULT if target.tools and "tool_name" in frame.observation else "observation"), frame
    yield "state", state


def _instance(frame: RawFrame) -> dict[str, Any]:
    """The message as its class has it: the protocol sends reward and done beside the observation."""
    if frame.kind == "state":
        return frame.data
    return {**frame.observation, "reward": frame.data.get("reward"), "done": frame.data.get("done")}


def _wrong_schema(jsonschema: ModuleType, schemas: Mapping[str, Any]) -> str | None:
    for name in ("action", "observation", "state"):
        try:
            jsonschema.Draft202012Validator.check_schema(schemas[name])
        except jsonschema.SchemaError as error:
            return f"the schema of {name} is not a JSON Schema: {error.message[:200]}"
    return None


def _mismatch(jsonschema: ModuleType, schema: Mapping[str, Any], instance: Any) -> str | None:
    error = next(iter(jsonschema.Draft202012Validator(schema).iter_errors(instance)), None)
    return None if error is None else f"{'.'.join(map(str, error.path)) or 'message'}: {error.message[:200]}"
