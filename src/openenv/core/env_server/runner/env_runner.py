"""Calls the methods of one environment for a session: a request's data in, encoded JSON out.

The same code runs in the event loop, in a session's thread, and in a forked process.
"""

import functools
import inspect
import logging
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from pydantic import BaseModel

from openenv.core.env_server.exceptions import EnvironmentFactoryError
from openenv.core.env_server.interfaces import Environment, Execution
from openenv.core.env_server.mcp_types import McpMethod
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.runner.environment_calls import (
    MethodArguments,
    await_environment,
    call_environment,
    without_paths,
)
from openenv.core.env_server.runner.observation_json import observation_data, packed_observation_data
from openenv.core.env_server.runner.tools import result_json, tools_of
from openenv.core.env_server.types import Observation
from openenv.core.errors import EnvironmentFault, NotSupported, UnknownTask
from openenv.core.outcomes import SUCCESS_RETURN, is_success_return
from openenv.core.wire.constants import EPISODE_VERBS
from openenv.core.wire.message_fields import unwritable
from openenv.core.wire.server_codec import NO_KEYWORDS, state_data

log = logging.getLogger(__name__)

SubmitCoroutine = Callable[[Coroutine[Any, Any, Any]], "Future[Any]"]
"""Starts a coroutine of an environment in the background loop."""

_OPEN: "dict[int, weakref.ref[Environment]]" = {}
"""The open environments of this process, by identity."""
_CHOOSING_VERBS = frozenset({"reset", "load"})
"""Verbs for each call of which `Environment.execution_for` chooses where it runs."""


class EncodedResponse(NamedTuple):
    """The result of a verb: its JSON object, whether the episode is done or cut short, and how long it took."""

    data: bytes
    done: bool = False
    truncated: bool = False
    environment_s: float = 0.0
    encode_s: float = 0.0
    arrays: Sequence[bytes] = ()
    """Arrays that the JSON refers to, for clients that read arrays as raw bytes."""
    num_steps: int = 1
    """Steps taken by a `step`: one for each environment of a vector session."""


class EnvRunner:
    """One environment and its verbs. Every exception that it raises is a RequestRefused.

    `call` runs a plain verb, `call_async` one of `async_verbs`.
    """

    def __init__(
        self,
        spec: EnvSpec,
        arguments: MethodArguments,
        submit: SubmitCoroutine,
        execution_override: Execution | None = None,
        *,
        packs_arrays: bool = False,
    ) -> None:
        """Make the environment. Raises FactoryFault when that fails, or returns an environment that is in use.

        execution_override: where the server's configuration runs all verbs. packs_arrays: whether the client reads
        arrays as raw bytes.
        """
        self.choosing_verbs: frozenset[str] = frozenset()
        """Verbs for each call of which `execution_for` chooses where it runs."""
        self._execution_override = execution_override
        self._packs_arrays = packs_arrays
        self._spec = spec
        self._submit = submit
        try:
            self.env = spec.new_environment()
        except BaseException as error:
            log.exception("%s could not be made", spec.name)
            reason = f"{spec.name} could not be made: {without_paths(str(error)) or type(error).__name__}"
            raise EnvironmentFactoryError(spec.name, reason) from error
        self._arguments = arguments.for_class(type(self.env))
        self.async_verbs = self._arguments.async_verbs
        """Verbs that `call_async` runs."""
        if execution_override is None and type(self.env).execution_for is not Environment.execution_for:
            self.choosing_verbs = _CHOOSING_VERBS
        if not spec.is_one_instance:
            self._register()

    def _register(self) -> None:
        known = _OPEN.get(id(self.env))
        if known is not None and known() is self.env:
            name = self._spec.name
            raise EnvironmentFactoryError(
                name,
                f"the factory of {name} returned an environment that another session uses: return a new one each "
                "time, or serve the instance itself",
            )
        _OPEN[id(self.env)] = weakref.ref(self.env)

    @property
    def execution(self) -> Execution:
        """Where all verbs but `choosing_verbs` run: as the server is configured, else as the environment declares."""
        return self._execution_override or self.env.execution

    def known_execution(self, verb: str) -> Execution | None:
        """Where `call` runs this verb; None: `execution_for` chooses, or `call_async` runs it."""
        if verb in self.async_verbs or verb in self.choosing_verbs:
            return None
        return self._execution_override or self.env.execution

    def execution_for(self, verb: str, data: dict[str, Any]) -> Execution:
        """Where the environment wants one call to run. Only for `choosing_verbs`."""
        return call_environment("execution_for", self.env.execution_for, verb, data if verb == "reset" else {})

    def call(self, verb: str, data: dict[str, Any], keywords: Mapping[str, Any] = NO_KEYWORDS) -> EncodedResponse:
        """Run a plain verb. data: of the request. keywords: further keywords of a step."""
        if verb in EPISODE_VERBS:
            began = time.perf_counter()
            args, kwargs = self._arguments.of(verb, data, keywords)
            method = self.env.step if verb == "step" else self.env.reset
            return self._encode(verb, call_environment(verb, method, *args, **kwargs), began)
        if verb == "state":
            return EncodedResponse(self._state())
        return self._save() if verb == "save" else self._load(data["snapshot"])

    def _state(self) -> bytes:
        found: Any = call_environment("state", lambda: self.env.state)
        if not isinstance(found, BaseModel):
            remedy = "write @property above it" if callable(found) else "return a State"
            raise EnvironmentFault(f"state of {self._spec.name} is of type {type(found).__name__}: {remedy}")
        return call_environment("writing the state", state_data, found)

    async def call_async(
        self, verb: str, data: dict[str, Any], keywords: Mapping[str, Any] = NO_KEYWORDS
    ) -> EncodedResponse:
        """Run an asynchronous verb."""
        if verb == "mcp":
            return await self._call_tools(data)
        if verb == "describe":
            return await self._describe(data["question"], data["arguments"])
        began = time.perf_counter()
        return self._encode(verb, await self._observe_async(verb, data, keywords), began)

    async def _observe_async(self, verb: str, data: dict[str, Any], keywords: Mapping[str, Any]) -> Observation:
        args, kwargs = self._arguments.of(verb, data, keywords)
        method = self.env.step_async if verb == "step" else self.env.reset_async
        return await await_environment(verb, method(*args, **kwargs))

    def start(self, verb: str, data: dict[str, Any]) -> Callable[[], Observation]:
        """Start an asynchronous `reset` or `step`. The returned function waits for its observation; it runs a plain
        one."""
        if verb in self._arguments.async_verbs:
            running = self._submit(self._observe_async(verb, data, NO_KEYWORDS))
            return lambda: self._checked(verb, running.result())
        return lambda: self._observe(verb, data)

    def _observe(self, verb: str, data: dict[str, Any]) -> Observation:
        args, kwargs = self._arguments.of(verb, data, NO_KEYWORDS)
        method = self.env.step if verb == "step" else self.env.reset
        return self._checked(verb, call_environment(verb, method, *args, **kwargs))

    def close(self) -> None:
        """Close the environment, unless it is the server's one ready instance. Errors of `close` are logged."""
        if self._spec.is_one_instance:
            return
        _OPEN.pop(id(self.env), None)
        try:
            self.env.close()
        except BaseException:  # border: an author's close may raise anything
            log.exception("close() of %s failed", self._spec.name)

    def _save(self) -> EncodedResponse:
        if type(self.env).save_state is Environment.save_state:
            raise NotSupported(f"{self._spec.name} cannot be saved: it does not write save_state and load_state")
        return EncodedResponse(call_environment("save_state", self.env.save_state))

    def _load(self, snapshot: bytes) -> EncodedResponse:
        call_environment("load_state", self.env.load_state, snapshot)
        return EncodedResponse(b"")

    async def _call_tools(self, data: dict[str, Any]) -> EncodedResponse:
        """List or call the environment's tools. Raises NotSupported when it has none."""
        began = time.perf_counter()
        tools = tools_of(self.env, self._spec.action_cls)
        if tools is None:
            raise NotSupported("Environment does not support MCP")
        method = data["method"]
        if method == McpMethod.TOOLS_LIST:
            result: Any = {"tools": await await_environment(method, tools.list_tools())}
        else:
            result = await await_environment(method, tools.call_tool(data["name"], data["arguments"]))
        returned = time.perf_counter()
        body = call_environment(method, result_json, result)
        return EncodedResponse(body, environment_s=returned - began, encode_s=time.perf_counter() - returned)

    async def _describe(self, question: str, arguments: list[Any]) -> EncodedResponse:
        """What the environment returns about itself or its tasks: `get_metadata`, or a method of the task API."""
        method = getattr(self.env, question, None)
        if not callable(method):
            raise NotSupported(f"{question} is not supported for this environment")
        return EncodedResponse(await await_environment(question, _described(method, question, arguments)))

    def _checked(self, verb: str, returned: Any) -> Observation:
        if isinstance(returned, Observation):
            return returned
        name, kind = self._spec.name, type(returned).__name__
        remedy = ": reward and done are fields of it" if isinstance(returned, tuple | dict) else ""
        if inspect.iscoroutine(returned):
            returned.close()  # nothing will await it
            remedy = f". An asynchronous method is named {verb}_async"
        raise EnvironmentFault(f"{verb}() of {name} returned {kind}: it must return an Observation{remedy}")

    def _declare_success(self, first: Observation) -> None:
        """Add the return of a success to an episode's first observation. Raises EnvironmentFault for what is none."""
        declared = self.env.success_return
        if not is_success_return(declared):
            raise EnvironmentFault(f"success_return={declared!r:.80}: the return of a success is a finite number")
        # in place of its dictionary, which an environment may use for several observations
        vars(first)["metadata"] = {**first.metadata, SUCCESS_RETURN: declared}

    def _encode(self, verb: str, observation: Any, began: float) -> EncodedResponse:
        """began: when the call of the environment began, in seconds of the performance counter."""
        returned = time.perf_counter()
        if not isinstance(observation, Observation):
            self._checked(verb, observation)
        reward = observation.reward
        try:
            if verb == "reset" and self.env.success_return is not None:
                self._declare_success(observation)
            if reward is not None and reward - reward != 0:  # NaN and infinity; a call would cost more
                raise EnvironmentFault(not_finite(reward))
            arrays: Sequence[bytes] = ()
            if self._packs_arrays:
                data, arrays = packed_observation_data(observation)
            else:
                data = observation_data(observation)
            done = observation.done
            truncated = done and is_truncated(observation)
            return EncodedResponse(data, done, truncated, returned - began, time.perf_counter() - returned, arrays)
        except EnvironmentFault:
            raise
        except Exception as error:  # border: what reading an author's observation raises, each of which is its fault
            log.warning("the observation of %s cannot be serialised: %s", self._spec.name, error)
            raise EnvironmentFault(without_paths(unwritable(observation, error))) from error


async def _described(method: Callable[..., Any], question: str, arguments: list[Any]) -> bytes:
    try:
        result = method(*arguments)
        return result_json(await result if inspect.isawaitable(result) else result)
    except NotImplementedError:
        raise NotSupported(f"{question} is not supported for this environment") from None
    except IndexError as error:
        log.info("%s raised", question, exc_info=True)
        raise UnknownTask("Invalid task index") from error
    except (KeyError, ValueError) as error:
        log.info("%s raised", question, exc_info=True)
        raise UnknownTask(without_paths(str(error))) from error


def not_finite(reward: Any) -> str:
    """The message of the error for a reward that is NaN or infinite."""
    return f"reward={reward!r:.80}: a reward is a finite number, or None for no reward: end the episode that diverged"


def is_truncated(observation: Observation) -> bool:
    """Whether an observation declares that its episode was cut short."""
    has_field = "truncated" in vars(observation) or _has_truncated(type(observation))
    return has_field and bool(getattr(observation, "truncated", False))


@functools.lru_cache(maxsize=256)
def _has_truncated(cls: type[Observation]) -> bool:
    """Whether a class has the field, or may have it. A lookup of a missing attribute takes pydantic 2 us."""
    return hasattr(cls, "truncated") or cls.model_config.get("extra") == "allow"
