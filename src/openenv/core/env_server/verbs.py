"""The author's verbs, called with a client's data: validated arguments in, the answer's bytes out.

The same code runs in the event loop, in a session's thread, and in a worker process.
"""

import functools
import inspect
import logging
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from openenv.core.env_server.authors_code import AuthorsCode, raise_authors, without_paths
from openenv.core.env_server.declaration import Declaration
from openenv.core.env_server.exceptions import EnvironmentFactoryError
from openenv.core.env_server.inline_limit import limited_call
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.loop_thread import LoopThread
from openenv.core.env_server.mcp_types import McpMethod
from openenv.core.env_server.observation_json import observation_data, packed_observation_data
from openenv.core.env_server.serialization import TAKES_TOOL_ACTIONS, deserialize_action
from openenv.core.env_server.tools import result_json, tools_of
from openenv.core.env_server.types import Action, Observation, ResetData
from openenv.core.env_server.wire import (
    invalid_message,
    refuse_unknown,
    state_data,
)
from openenv.core.errors import EnvironmentFault, NotSupported, UnknownTask

log = logging.getLogger(__name__)

_IN_USE: "dict[int, weakref.ref[Environment]]" = {}
"""The environments that are open in this process, by identity."""

_TOLD_APART = frozenset({"reset", "load"})
"""Verbs for each call of which an environment may say where it runs."""
_OF_EVERY_RESET = ("seed", "episode_id")
WHERE = "execution_for"
_new = tuple.__new__

LOOK_S = 1.0
"""How long an environment may think about where a call is to run."""


class Answer(NamedTuple):
    """What a verb returned: its JSON object, whether the episode is over or was cut short, and what it took."""

    data: bytes
    done: bool = False
    truncated: bool = False
    environment_s: float = 0.0
    encode_s: float = 0.0
    arrays: Sequence[bytes] = ()
    """What the JSON refers to, for clients that read arrays as raw bytes."""
    num_steps: int = 1
    """Steps that a step was: of a vector session one for each environment."""


class VerbSignatures:
    """Which keywords an environment's `reset` and `step` take, and which verbs it wrote asynchronously."""

    def __init__(self, cls: type[Environment]) -> None:
        self.asynchronous = frozenset(
            {"mcp", "describe", *(verb for verb in ("reset", "step") if _prefers_async(cls, verb))}
        )
        reset = cls.reset_async if "reset" in self.asynchronous else cls.reset
        step = cls.step_async if "step" in self.asynchronous else cls.step
        self.reset_keywords, self.step_keywords = _keywords(reset), _keywords(step)
        takes = self.reset_keywords
        self.plain_reset = {key: None for key in _OF_EVERY_RESET if takes is None or key in takes}
        """The keywords of a reset that says nothing; not to be changed."""
        self.reset_given, self.step_given = _given(reset, 1), _given(step, 2)
        """Names of the parameters that the server fills in by their place, such as `self` and `action`."""


def _prefers_async(cls: type[Environment], verb: str) -> bool:
    """Whether the verb's asynchronous twin was written, and not left behind by a subclass that wrote the plain one."""
    definers = {name: next(i for i, c in enumerate(cls.__mro__) if name in vars(c)) for name in (verb, f"{verb}_async")}
    written = getattr(cls, f"{verb}_async") is not getattr(Environment, f"{verb}_async")
    return written and definers[f"{verb}_async"] <= definers[verb]


def _keywords(function: Callable[..., Any]) -> set[str] | None:
    """Names of the keywords that `function` takes, or None when it takes any."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL}


def _given(function: Callable[..., Any], count: int) -> frozenset[str]:
    """Names of the first `count` parameters that a keyword could name a second time."""
    parameters = list(inspect.signature(function).parameters.values())[:count]
    return frozenset(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


def _refuse_given(keywords: dict[str, Any], given: frozenset[str], verb: str) -> None:
    taken = keywords.keys() & given
    if taken:
        raise refuse_unknown(taken, f"no keyword {' or '.join(sorted(given))}: the server gives those itself", verb)


class Verbs:
    """One environment instance and its verbs. Raises RequestRefused for what went wrong, nothing else.

    `call` runs a verb to its end, asynchronous ones in the given event loop's thread; `call_async` is for whoever
    awaits those.
    """

    def __init__(
        self, declaration: Declaration, signatures: VerbSignatures, loop: LoopThread, *, packs_arrays: bool = False
    ) -> None:
        """Make the environment. Raises FactoryFault when that fails, or gives an environment that is in use.

        packs_arrays: whether the client reads arrays as raw bytes.
        """
        self.told: str | None = None
        """Where the server was told to run all verbs."""
        self.steps_plainly = not packs_arrays and "step" not in signatures.asynchronous
        """Whether a step is a call of the environment's, and its answer JSON."""
        self._packs_arrays = packs_arrays
        self._declaration = declaration
        self._signatures = signatures
        self._loop = loop
        try:
            self.env = declaration.new_environment()
        except BaseException as error:
            log.exception("%s could not be made", declaration.name)
            reason = f"{declaration.name} could not be made: {without_paths(str(error)) or type(error).__name__}"
            raise EnvironmentFactoryError(declaration.name, reason) from error
        cls = declaration.action_cls
        self._to_action: Callable[[dict[str, Any]], Action] = (
            functools.partial(deserialize_action, action_cls=cls)
            if cls in TAKES_TOOL_ACTIONS
            else cls.__pydantic_validator__.validate_python
        )
        self._tells_calls_apart = type(self.env).execution_for is not Environment.execution_for
        if not declaration.is_one_instance:
            self._take_into_use()

    def _take_into_use(self) -> None:
        in_use = _IN_USE.get(id(self.env))
        if in_use is not None and in_use() is self.env:
            name = self._declaration.name
            raise EnvironmentFactoryError(
                name,
                f"the factory of {name} returned an environment that another session plays: return a new one each "
                "time, or serve the instance itself",
            )
        _IN_USE[id(self.env)] = weakref.ref(self.env)

    def execution(self, verb: str, data: dict[str, Any]) -> str:
        """Where a verb is to be run: as the server was told, else as the environment says."""
        if self.told is not None:
            return self.told
        if not (self._tells_calls_apart and verb in _TOLD_APART):
            return self.env.execution
        return limited_call(self._execution_for, WHERE, verb, data if verb == "reset" else {}, LOOK_S)

    def _execution_for(self, question: str, verb: str, keywords: Mapping[str, Any]) -> str:
        try:
            return self.env.execution_for(verb, keywords)
        except BaseException as error:  # noqa: BLE001  as AuthorsCode does, at less cost when nothing is raised
            raise_authors(question, error)

    def is_async(self, verb: str) -> bool:
        """Whether `call_async` has anything to wait for."""
        return verb in self._signatures.asynchronous

    def runs_at_once(self, verb: str, data: dict[str, Any]) -> bool:
        """Whether a verb is to be run in the event loop, and waits for nothing there."""
        if verb in self._signatures.asynchronous:
            return False
        return self.execution(verb, data) == "inline"

    def call(self, verb: str, data: dict[str, Any], options: dict[str, Any]) -> Answer:
        """Run a verb. data: what the client sent; options: further keywords of the environment's `step`."""
        if verb in self._signatures.asynchronous:
            return self._loop.submit(self.call_async(verb, data, options)).result()
        if verb == "step":
            return self._step(data, options)
        if verb == "reset":
            return self._reset(data)
        if verb == "state":
            return self._state()
        return self._save() if verb == "save" else self._load(data["snapshot"])

    async def call_async(self, verb: str, data: dict[str, Any], options: dict[str, Any]) -> Answer:
        """Run a verb that waits."""
        if verb == "mcp":
            return await self._mcp(data)
        if verb == "describe":
            return await self._describe(data["question"], data["arguments"])
        began = time.perf_counter()
        if verb == "reset":
            call = self.env.reset_async(**self._reset_keywords(data))
        else:
            call = self.env.step_async(self._action(data), **self._step_keywords(options))
        with AuthorsCode(verb):
            observation = await call
        return self._answer(verb, observation, began)

    def close(self) -> None:
        """Close the environment, unless it is the author's one ready instance. Errors of `close` are logged."""
        if self._declaration.is_one_instance:
            return
        _IN_USE.pop(id(self.env), None)
        try:
            self.env.close()
        except (Exception, SystemExit):  # border: an author's close may raise anything, the session ends all the same
            log.exception("close() of %s failed", self._declaration.name)

    def begin(self, verb: str, data: dict[str, Any]) -> Callable[[], Observation]:
        """Begin a reset or a step where that takes its time elsewhere; what is returned ends it, or does it now."""
        if verb in self._signatures.asynchronous:
            return self._loop.submit(self._observe_async(verb, data)).result
        return lambda: self._observe(verb, data)

    def _observe(self, verb: str, data: dict[str, Any]) -> Observation:
        if verb == "reset":
            keywords = self._reset_keywords(data)
            with AuthorsCode(verb):
                observation = self.env.reset(**keywords)
        else:
            action = self._action(data)
            with AuthorsCode(verb):
                observation = self.env.step(action)
        return self._checked(verb, observation)

    async def _observe_async(self, verb: str, data: dict[str, Any]) -> Observation:
        call = (
            self.env.reset_async(**self._reset_keywords(data))
            if verb == "reset"
            else self.env.step_async(self._action(data))
        )
        with AuthorsCode(verb):
            observation = await call
        return self._checked(verb, observation)

    def _reset(self, data: dict[str, Any]) -> Answer:
        keywords = self._reset_keywords(data)
        began = time.perf_counter()
        try:
            observation = self.env.reset(**keywords)
        except BaseException as error:  # noqa: BLE001  as AuthorsCode does, at less cost when nothing is raised
            raise_authors("reset", error)
        return self._answer("reset", observation, began)

    def _step(self, data: dict[str, Any], options: dict[str, Any]) -> Answer:
        if not options:
            return self.plain_step(data)
        action = self._action(data)
        keywords = self._step_keywords(options)
        began = time.perf_counter()
        with AuthorsCode("step"):
            observation = self.env.step(action, **keywords)
        return self._answer("step", observation, began)

    def plain_step(self, data: dict[str, Any]) -> Answer:
        """A step without further keywords, where it waits for nothing."""
        action = self._action(data)
        began = time.perf_counter()
        try:
            observation = self.env.step(action)
        except BaseException as error:  # noqa: BLE001  as AuthorsCode does, at less cost when nothing is raised
            raise_authors("step", error)
        return self._answer("step", observation, began)

    def _state(self) -> Answer:
        with AuthorsCode("state"):
            return Answer(state_data(self.env.state))

    def _save(self) -> Answer:
        """The environment's own snapshot. Raises NotSupported when it has none."""
        if type(self.env).save_state is Environment.save_state:
            raise NotSupported(f"{self._declaration.name} cannot be saved: it does not write save_state and load_state")
        with AuthorsCode("save_state"):
            return Answer(self.env.save_state())

    def _load(self, snapshot: bytes) -> Answer:
        """Continue from a snapshot that `save` of an environment of this class returned."""
        with AuthorsCode("load_state"):
            self.env.load_state(snapshot)
        return Answer(b"")

    async def _mcp(self, data: dict[str, Any]) -> Answer:
        """List or call the environment's tools. Raises NotSupported when it has none."""
        began = time.perf_counter()
        tools = tools_of(self.env, self._declaration.action_cls)
        if tools is None:
            raise NotSupported("Environment does not support MCP")
        with AuthorsCode(data["method"]):
            if data["method"] == McpMethod.TOOLS_LIST:
                result: Any = {"tools": await tools.list_tools()}
            else:
                result = await tools.call_tool(data["name"], data["arguments"])
            returned = time.perf_counter()
            body = result_json(result)
        return Answer(body, environment_s=returned - began, encode_s=time.perf_counter() - returned)

    async def _describe(self, question: str, arguments: list[Any]) -> Answer:
        """What the environment says about itself or its tasks: `get_metadata`, or a method of the task API."""
        method = getattr(self.env, question, None)
        if not callable(method):
            raise NotSupported(f"{question} is not supported for this environment")
        with AuthorsCode(question):
            try:
                answer = method(*arguments)
                return Answer(result_json(await answer if inspect.isawaitable(answer) else answer))
            except NotImplementedError:
                raise NotSupported(f"{question} is not supported for this environment") from None
            except IndexError as error:
                raise UnknownTask("Invalid task index") from error
            except (KeyError, ValueError) as error:
                raise UnknownTask(without_paths(str(error))) from error

    def _reset_keywords(self, data: dict[str, Any]) -> dict[str, Any]:
        """The keywords of a reset that the environment takes. Seed and episode_id are the protocol's: an environment
        that has no use for them does not see them."""
        if not data:
            return self._signatures.plain_reset
        takes = self._signatures.reset_keywords
        try:
            request = ResetData.model_validate(data)
        except ValidationError as error:
            raise invalid_message(error) from None
        own = dict(request.model_extra or {})
        _refuse_given(own, self._signatures.reset_given, "reset")
        if takes is not None and own.keys() - takes:
            allowed = ", ".join(sorted(takes)) or "no keywords"
            raise refuse_unknown(own.keys() - takes, allowed, "reset")
        general = {key: getattr(request, key) for key in _OF_EVERY_RESET}
        return {**{key: value for key, value in general.items() if takes is None or key in takes}, **own}

    def _step_keywords(self, options: dict[str, Any]) -> dict[str, Any]:
        takes = self._signatures.step_keywords
        _refuse_given(options, self._signatures.step_given, "step")
        return {key: value for key, value in options.items() if takes is None or key in takes}

    def _action(self, data: dict[str, Any]) -> Action:
        try:
            return self._to_action(data)
        except ValidationError as error:
            raise invalid_message(error) from None
        except BaseException as error:  # noqa: BLE001  a validator is an author's code too
            raise_authors("step", error)

    def _checked(self, verb: str, observation: Any) -> Observation:
        if isinstance(observation, Observation):
            return observation
        raise self._no_observation(verb, observation)

    def _no_observation(self, verb: str, returned: Any) -> EnvironmentFault:
        name = self._declaration.name
        return EnvironmentFault(f"{verb}() of {name} returned {type(returned).__name__}: it must return an Observation")

    def _answer(self, verb: str, observation: Any, began: float) -> Answer:
        """began: when the author's code was called, in seconds of the performance counter."""
        returned = time.perf_counter()
        if not isinstance(observation, Observation):
            raise self._no_observation(verb, observation)
        try:
            is_over = observation.done
            truncated = is_over and is_truncated(observation)
            arrays: Sequence[bytes] = ()
            if self._packs_arrays:
                data, arrays = packed_observation_data(observation)
            else:
                data = observation_data(observation)
            encoded = time.perf_counter()
            return _new(Answer, (data, is_over, truncated, returned - began, encoded - returned, arrays, 1))
        except (PydanticSerializationError, TypeError) as error:
            log.warning("the observation of %s cannot be serialised: %s", self._declaration.name, error)
            raise EnvironmentFault(str(error)) from error


def is_truncated(observation: Observation) -> bool:
    """Whether an observation says that its episode was cut short."""
    may_say = "truncated" in vars(observation) or _tells_truncation(type(observation))
    return may_say and bool(getattr(observation, "truncated", False))


@functools.lru_cache(maxsize=256)
def _tells_truncation(cls: type[Observation]) -> bool:
    """Whether all of a class may say so. To be asked for what an observation does not have takes pydantic 2 us."""
    return hasattr(cls, "truncated") or cls.model_config.get("extra") == "allow"
