"""The author's verbs, called with a client's data: validated arguments in, the answer's bytes out.

The same code runs in the event loop, in a session's thread, and in a worker process.
"""

import inspect
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from openenv.core.env_server.declaration import Declaration
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, ResetRequest
from openenv.core.env_server.wire import invalid_message, observation_data, refuse_unknown, state_data
from openenv.core.errors import EnvironmentFault, FactoryFault, NotSupported, RequestRefused, TimeLimitExceeded

log = logging.getLogger(__name__)

_PATH = re.compile(r"(?<![\w:/.<])/[\w.-]+(?:/[\w.-]*)+")
"""An absolute path of two parts or more; not a fraction, an alternative or a URL."""


@dataclass(slots=True, frozen=True)
class Answer:
    """What a verb returned: its JSON object, whether the episode is over or was cut short, and what it took."""

    data: bytes
    done: bool = False
    truncated: bool = False
    environment_s: float = 0.0
    encode_s: float = 0.0


class VerbSignatures:
    """Which keywords an environment's `reset` and `step` take, and which verbs it wrote asynchronously."""

    def __init__(self, cls: type[Environment]) -> None:
        self.reset_is_async = cls.reset_async is not Environment.reset_async
        self.step_is_async = cls.step_async is not Environment.step_async
        self.reset_keywords = _keywords(cls.reset_async if self.reset_is_async else cls.reset)
        self.step_keywords = _keywords(cls.step_async if self.step_is_async else cls.step)


def _keywords(function: Callable[..., Any]) -> set[str] | None:
    """Names of the keywords that `function` takes, or None when it takes any."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL}


class Verbs:
    """One environment instance and its verbs. Every method raises RequestRefused for what went wrong, nothing else."""

    def __init__(self, declaration: Declaration, signatures: VerbSignatures) -> None:
        """Make the environment. Raises FactoryFault when that fails."""
        self._declaration = declaration
        self._signatures = signatures
        try:
            self.env = declaration.make()
        except Exception as error:  # border: an author's constructor may raise anything
            log.exception("%s could not be made", declaration.name)
            raise FactoryFault(f"{declaration.name} could not be made: {without_paths(str(error))}") from error

    def reset(self, data: dict[str, Any]) -> Answer:
        """Start an episode. `data` holds seed, episode_id and the environment's own keywords."""
        keywords = self._reset_keywords(data)
        return self._observed("reset", lambda: self.env.reset(**keywords))

    def step(self, data: dict[str, Any], options: dict[str, Any]) -> Answer:
        """Take an action. `data` holds its fields, `options` further keywords of the environment's `step`."""
        action, keywords = self._action(data), self._step_keywords(options)
        return self._observed("step", lambda: self.env.step(action, **keywords))

    async def reset_async(self, data: dict[str, Any]) -> Answer:
        """`reset` of an environment that wrote it asynchronously."""
        keywords = self._reset_keywords(data)
        began = time.perf_counter()
        return self._answer("reset", await _awaited("reset", self.env.reset_async(**keywords)), began)

    async def step_async(self, data: dict[str, Any], options: dict[str, Any]) -> Answer:
        """`step` of an environment that wrote it asynchronously."""
        action, keywords = self._action(data), self._step_keywords(options)
        began = time.perf_counter()
        return self._answer("step", await _awaited("step", self.env.step_async(action, **keywords)), began)

    def state(self) -> Answer:
        """The environment's state."""
        try:
            return Answer(state_data(self.env.state))
        except (Exception, SystemExit) as error:  # border: an author's property may raise anything
            raise environment_fault("state", error) from error

    def save(self) -> bytes:
        """The environment's own snapshot. Raises NotSupported when it has none."""
        if type(self.env).save_state is Environment.save_state:
            raise NotSupported(f"{self._declaration.name} cannot be saved: it does not write save_state and load_state")
        try:
            return self.env.save_state()
        except (Exception, SystemExit) as error:  # border: an author's code may raise anything
            raise environment_fault("save_state", error) from error

    def load(self, snapshot: bytes) -> None:
        """Continue from a snapshot that `save` of an environment of this class returned."""
        try:
            self.env.load_state(snapshot)
        except (Exception, SystemExit) as error:  # border: an author's code may raise anything
            raise environment_fault("load_state", error) from error

    def close(self) -> None:
        """Close the environment, unless it is the author's one ready instance. Errors of `close` are logged."""
        if self._declaration.is_one_instance:
            return
        try:
            self.env.close()
        except Exception:  # border: an author's close may raise anything, and the session ends all the same
            log.exception("close() of %s failed", self._declaration.name)

    def _reset_keywords(self, data: dict[str, Any]) -> dict[str, Any]:
        """The keywords of a reset that the environment takes. Seed and episode_id are the protocol's: an environment
        that has no use for them does not see them."""
        try:
            request = ResetRequest.model_validate(data)
        except ValidationError as error:
            raise invalid_message(error) from None
        takes = self._signatures.reset_keywords
        own = dict(request.model_extra or {})
        if takes is not None and own.keys() - takes:
            allowed = ", ".join(sorted(takes)) or "no keywords"
            raise refuse_unknown(own.keys() - takes, allowed, "reset")
        general = {"seed": request.seed, "episode_id": request.episode_id}
        return {**{key: value for key, value in general.items() if takes is None or key in takes}, **own}

    def _step_keywords(self, options: dict[str, Any]) -> dict[str, Any]:
        takes = self._signatures.step_keywords
        return {key: value for key, value in options.items() if takes is None or key in takes}

    def _action(self, data: dict[str, Any]) -> Action:
        try:
            return self._declaration.action_cls.model_validate(data)
        except ValidationError as error:
            raise invalid_message(error) from None

    def _observed(self, verb: str, call: Callable[[], Any]) -> Answer:
        began = time.perf_counter()
        try:
            observation = call()
        except (Exception, SystemExit) as error:  # border: an author's code may raise anything
            raise environment_fault(verb, error) from error
        return self._answer(verb, observation, began)

    def _answer(self, verb: str, observation: Any, began: float) -> Answer:
        """began: when the author's code was called, in seconds of the performance counter."""
        returned = time.perf_counter()
        if not isinstance(observation, Observation):
            kind = type(observation).__name__
            raise EnvironmentFault(
                f"{verb}() of {self._declaration.name} returned {kind}: it must return an Observation"
            )
        try:
            truncated = observation.done and bool(getattr(observation, "truncated", False))
            data = observation_data(observation)
            return Answer(data, observation.done, truncated, returned - began, time.perf_counter() - returned)
        except (PydanticSerializationError, TypeError) as error:
            log.warning("the observation of %s cannot be serialised: %s", self._declaration.name, error)
            raise EnvironmentFault(str(error)) from error


async def _awaited(verb: str, call: Any) -> Any:
    try:
        return await call
    except (Exception, SystemExit) as error:  # border: an author's code may raise anything
        raise environment_fault(verb, error) from error


def environment_fault(verb: str, error: Exception | SystemExit) -> RequestRefused:
    """What an exception of the author's code is to a client: its message. The traceback goes to the log alone."""
    if isinstance(error, TimeLimitExceeded):
        return error
    log.info("%s raised", verb, exc_info=error)
    if isinstance(error, SystemExit):
        return EnvironmentFault(f"{verb}() called sys.exit({error.code!r})")
    return EnvironmentFault(without_paths(str(error)) or type(error).__name__)


def without_paths(text: str) -> str:
    """`text` with the server's file paths left out: they are in the log, and no business of a remote caller."""
    return _PATH.sub("<path>", text)
