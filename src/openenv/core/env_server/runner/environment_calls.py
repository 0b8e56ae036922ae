"""Calls of an environment's methods: arguments are read and validated, and exceptions become errors for a client."""

import asyncio
import inspect
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, ParamSpec, TypeVar

from pydantic import ValidationError

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.types import Action, OpenAction, ResetData
from openenv.core.errors import (
    EnvironmentFault,
    NotSupported,
    OpenEnvError,
    TimeLimitExceeded,
    UnknownTask,
    is_refused_action,
)
from openenv.core.wire.message_fields import is_strict, validated
from openenv.core.wire.server_codec import invalid_message, unknown_keywords

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")
Args = ParamSpec("Args")

_PATH = re.compile(r"(?<![\w:/.<])/[\w.-]+(?:/[\w.-]*)+")
"""An absolute path of two parts or more; not a fraction, an alternative or a URL."""


def call_environment(verb: str, method: Callable[Args, ResultT], /, *args: Args.args, **kwargs: Args.kwargs) -> ResultT:
    """Return what a method of an environment returns. Raises `environment_error` of what it raises."""
    try:
        return method(*args, **kwargs)
    except BaseException as error:
        raise environment_error(verb, error) from error


async def await_environment(verb: str, awaitable: Awaitable[ResultT]) -> ResultT:
    """`call_environment` for what an asynchronous method returned."""
    try:
        return await awaitable
    except BaseException as error:
        raise environment_error(verb, error) from error


def environment_error(verb: str, error: BaseException) -> BaseException:
    """The exception to raise for one that environment code raised. The traceback goes to the log only.

    Unchanged are a time limit, NotSupported and UnknownTask, and a cancellation that was requested of the task.
    """
    if isinstance(error, TimeLimitExceeded | NotSupported | UnknownTask):
        return error
    if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
        return error
    log.info("%s raised", verb, exc_info=error)
    if isinstance(error, SystemExit):
        return EnvironmentFault(f"{verb}() called sys.exit({error.code!r})")
    text = _text_of(verb, error)
    text = without_paths(text[:_LONGEST_TEXT]) + ("..." if len(text) > _LONGEST_TEXT else "")
    return EnvironmentFault(text, refused=True) if verb == "step" and _refuses(error) else EnvironmentFault(text)


def _refuses(error: BaseException) -> bool:
    """Whether an exception of `step` refuses the action: a ValueError that is not of reading something else, such as
    the answer of a service."""
    if isinstance(error, OpenEnvError):
        return is_refused_action(error)
    return isinstance(error, ValueError) and not isinstance(
        error, ValidationError | UnicodeError | json.JSONDecodeError
    )


_LONGEST_TEXT = 10_000
"""Characters of an exception's text that a client receives: the text may repeat what the client has sent."""
_MOST_ROWS = 1000
"""Wrong fields of which pydantic is asked for all rows."""
_BUGS = (ArithmeticError, AssertionError, AttributeError, IndexError, KeyError, NameError, TypeError)
"""Exceptions that an environment does not raise to refuse an action, and whose text alone names no cause."""


def _text_of(verb: str, error: BaseException) -> str:
    """What an exception means: the text that its author wrote, or the method and the class of the exception."""
    text = str(error)
    if isinstance(error, ValidationError):
        rows = error.errors() if error.error_count() <= _MOST_ROWS else []
        texts = [f"{'.'.join(map(str, (error.title, *row['loc'])))}: {row['msg']}" for row in rows]
        wrong = "; ".join(texts) or f"{error.title}: {error.error_count()} fields are wrong"
        return f"{verb}() raised ValidationError: {wrong}"
    if isinstance(error, _BUGS) or not text or verb == "state":  # which refuses nothing
        return f"{verb}() raised {type(error).__name__}{text and f': {text}'}"
    return text


def _is_being_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return False
    return task is not None and task.cancelling() > 0


def without_paths(text: str) -> str:
    """`text` with file paths of the server replaced by `<path>`: a remote caller must not see them."""
    return _PATH.sub("<path>", text)


_RESET_FIELDS = ("seed", "episode_id")
"""Keywords of a reset that the protocol defines. An environment that does not take one of them does not get it."""

_TOOL_ACTIONS: dict[str, type[Action]] = {"list_tools": ListToolsAction, "call_tool": CallToolAction}
TOOL_ACTION_CLASSES = frozenset({Action, OpenAction, ListToolsAction, CallToolAction})
"""Action classes of environments whose actions may list and call tools; the field `type` decides."""


class MethodArguments:
    """The signatures of one environment class, and its action's validator."""

    def __init__(self, spec: EnvSpec, environment_cls: type[Environment] | None = None) -> None:
        """environment_cls: None for the class of the specification."""
        self._spec = spec
        self._cls = cls = environment_cls or spec.environment_cls
        self.async_verbs = frozenset(
            {"mcp", "describe", *(verb for verb in ("reset", "step") if _prefers_async(cls, verb))}
        )
        """Verbs that are coroutines."""
        reset = cls.reset_async if "reset" in self.async_verbs else cls.reset
        step = cls.step_async if "step" in self.async_verbs else cls.step
        self._reset_keywords, self._step_keywords = _keywords(reset), _keywords(step)
        self._reset_filled, self._step_filled = _positional(reset, 1), _positional(step, 2)
        self._empty_reset = {key: None for key in _RESET_FIELDS if _takes(self._reset_keywords, key)}
        self._read_action = _action_reader(spec.action_cls)

    def for_class(self, environment_cls: type[Environment]) -> "MethodArguments":
        """These arguments, with the signatures of the class that a factory made."""
        return self if environment_cls is self._cls else MethodArguments(self._spec, environment_cls)

    def of(
        self, verb: str, data: dict[str, Any], keywords: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Positional and keyword arguments of a `reset` or `step`. Raises InvalidMessage that names each wrong field.

        data: of the request. keywords: further keywords of a step.
        """
        if verb == "reset":
            return (), self._reset_arguments(data) if data else self._empty_reset
        try:
            action = self._read_action(data)
        except ValidationError as error:
            raise invalid_message(error, self._read_action, data) from None
        except BaseException as error:
            raise environment_error("step", error) from error
        return (action,), self._step_arguments(keywords) if keywords else keywords

    def _reset_arguments(self, data: dict[str, Any]) -> dict[str, Any]:
        takes = self._reset_keywords
        try:
            request = ResetData.model_validate(data)
        except ValidationError as error:
            raise invalid_message(error, ResetData.model_validate, data) from None
        own = dict(request.model_extra or {})
        _refuse_filled(own, self._reset_filled, "reset")
        if takes is not None and own.keys() - takes:
            allowed = ", ".join(sorted(takes)) or "no keywords"
            raise unknown_keywords(own.keys() - takes, allowed, "reset")
        return {**{key: getattr(request, key) for key in _RESET_FIELDS if _takes(takes, key)}, **own}

    def _step_arguments(self, keywords: Mapping[str, Any]) -> dict[str, Any]:
        _refuse_filled(keywords, self._step_filled, "step")
        return {key: value for key, value in keywords.items() if _takes(self._step_keywords, key)}


def _action_reader(action_cls: type[Action]) -> Callable[[dict[str, Any]], Action]:
    """What makes an action of a dictionary: the class's own `model_validate`, where it writes one."""
    if action_cls in TOOL_ACTION_CLASSES:
        return partial(deserialize_action, action_cls=action_cls)
    if action_cls.model_validate.__func__ is not Action.model_validate.__func__:  # type: ignore[attr-defined]
        return action_cls.model_validate
    if is_strict(action_cls):
        return partial(validated, action_cls)
    # by either name: a field's own is what `model_dump` writes, and its alias what the schema has
    return partial(action_cls.__pydantic_validator__.validate_python, by_alias=True, by_name=True)


def _prefers_async(cls: type[Environment], verb: str) -> bool:
    """Whether the class overrides the asynchronous twin of a method, at or below the class that has the plain one."""
    definers = {name: next(i for i, c in enumerate(cls.__mro__) if name in vars(c)) for name in (verb, f"{verb}_async")}
    overrides = getattr(cls, f"{verb}_async") is not getattr(Environment, f"{verb}_async")
    return overrides and definers[f"{verb}_async"] <= definers[verb]


def _keywords(function: Callable[..., Any]) -> set[str] | None:
    """Names of the keywords that `function` takes; None: any."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL}


def _takes(keywords: set[str] | None, name: str) -> bool:
    return keywords is None or name in keywords


def _positional(function: Callable[..., Any], count: int) -> frozenset[str]:
    """Names of the first `count` parameters, which the server fills by position and a keyword could name again."""
    parameters = list(inspect.signature(function).parameters.values())[:count]
    return frozenset(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


def _refuse_filled(keywords: Mapping[str, Any], filled: frozenset[str], verb: str) -> None:
    taken = keywords.keys() & filled
    if taken:
        raise unknown_keywords(taken, f"no keyword {' or '.join(sorted(filled))}: the server fills those", verb)


def deserialize_action(action_data: dict[str, Any], action_cls: type[Action]) -> Action:
    """The action in a dictionary, of the class or, where the environment takes those, of a tool action.

    Raises pydantic's ValidationError for a field that is wrong, missing or unknown.
    """
    kind = action_data.get("type")
    if action_cls in TOOL_ACTION_CLASSES and isinstance(kind, str):
        action_cls = _TOOL_ACTIONS.get(kind, action_cls)
    return action_cls.model_validate(action_data)
