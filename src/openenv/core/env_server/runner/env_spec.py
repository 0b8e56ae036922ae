"""The specification of an environment: how it is made, and the classes of its messages."""

import functools
import inspect
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.runner.field_types import check_fields
from openenv.core.env_server.types import Action, Observation, OpenAction, ServerMode, State

log = logging.getLogger(__name__)

EnvironmentSource = (
    type[Environment[Any, Any, Any]] | Callable[[], Environment[Any, Any, Any]] | Environment[Any, Any, Any]
)

TITLE_END = ": an OpenEnv environment"
"""Of an application's title, after the environment's name."""
DERIVE = "derive it from Environment (from openenv import Environment)"
"""What the author of another class does."""


@dataclass(kw_only=True)
class EnvSpec:
    """An environment, as the server needs to know it."""

    make: Callable[[], Environment]
    """Returns an environment: the author's class or function."""
    environment_cls: type[Environment]
    """`Environment` itself while it is unknown: of a factory without a return annotation, before its first call."""
    action_cls: type[Action]
    observation_cls: type[Observation]
    reset_observation_cls: type[Observation]
    """Class of what a reset returns, where it is another than a step's."""
    state_cls: type[State]
    name: str
    is_one_instance: bool
    """Whether `make` always returns the same ready instance, which then serves one session at a time."""

    longest_s: float = 0.0
    """How long a reset or a step may take, where that is longer than the server's own limits; clients wait so long."""
    mode: ServerMode = ServerMode.SIMULATION
    """What the server is for. Some tools of an environment may be for one of the modes only."""

    @property
    def is_known(self) -> bool:
        """Whether the class of the environments is known."""
        return self.environment_cls is not Environment

    def new_environment(self) -> Environment:
        """Make the environment of a new session and set its `server_mode`; its class is known from then on.

        Raises TypeError when the factory returns something else.
        """
        env: object = self.make()
        if not isinstance(env, Environment):
            raise TypeError(f"the factory {self.name} returned {type(env).__name__}: it must return an Environment")
        if not self.is_known:
            self.environment_cls = type(env)
        env.server_mode = self.mode
        return env

    def limited(self, max_sessions: int, execution: str | None) -> int:
        """The number of sessions that the environment allows, at most `max_sessions`.

        Instances that disturb each other in one process may run in processes of their own.
        """
        has_own_process = (execution or self.environment_cls.execution) == "process"
        allows_more = self.environment_cls.SUPPORTS_CONCURRENT_SESSIONS or has_own_process
        return max_sessions if allows_more and not self.is_one_instance else 1


def resolve_env_spec(
    env: EnvironmentSource,
    action_cls: type[Action] | None = None,
    observation_cls: type[Observation] | None = None,
    state_cls: type[State] | None = None,
    name: str | None = None,
    reset_observation_cls: type[Observation] | None = None,
) -> EnvSpec:
    """The specification of a class, a factory, or one ready instance. A factory is not called.

    A message class that is not given is taken from `Environment[YourAction, YourObservation, YourState]`. The next
    sources are the annotations of `reset`, `step` and `state`, and the one subclass in the module of the environment,
    unless that module has another environment too.
    Raises TypeError when `env` is none of the three, for a factory that needs a return annotation, and for a field of a
    type that no message can carry.
    """
    make, environment_cls = _maker(env)
    if environment_cls is Environment and (action_cls is None or observation_cls is None):
        raise TypeError(
            f"env={env!r}: the messages of a factory without a return annotation are unknown until it is called, which "
            "a session does first. Pass action_cls and observation_cls, or write `def make() -> YourEnvironment:`"
        )
    hints = _annotated(environment_cls)
    action = action_cls or _find(environment_cls, Action, hints.get("action"))
    has_tools = hasattr(environment_cls, "mcp_session")  # its actions are calls
    if action is None and not has_tools:
        log.warning("%s declares no action class: any field is accepted. Write Environment[YourAction, ...] or pass "
                    "action_cls.", environment_cls.__name__)  # fmt: skip
    observation = observation_cls or _find(environment_cls, Observation, hints.get("observation")) or Observation
    state = state_cls or _find(environment_cls, State, hints.get("state")) or State
    for message in (action or OpenAction, observation, reset_observation_cls or observation, state):
        check_fields(message)
    return EnvSpec(
        make=make,
        environment_cls=environment_cls,
        action_cls=action or OpenAction,
        observation_cls=observation,
        reset_observation_cls=reset_observation_cls or observation,
        state_cls=state,
        name=name or _name_of(env, environment_cls),
        is_one_instance=isinstance(env, Environment),
    )


def _maker(env: EnvironmentSource) -> tuple[Callable[[], Environment], type[Environment]]:
    if isinstance(env, Environment):
        return (lambda: env), type(env)
    if isinstance(env, type):
        if not issubclass(env, Environment):
            raise TypeError(f"env={env.__name__} is no Environment: {DERIVE}")
        if inspect.isabstract(env):
            missing = ", ".join(sorted(env.__abstractmethods__))
            raise TypeError(f"env={env.__name__} does not write {missing}: an Environment has reset, step and state")
        return env, env
    if not callable(env):
        remedy = f"{DERIVE}, then pass it" if hasattr(env, "step") else "pass an Environment class"
        raise TypeError(f"env={env!r}: {remedy}, a function that returns one, or a ready instance")
    made: Any = env.func if isinstance(env, functools.partial) else env
    routine = made if isinstance(made, type) or inspect.isroutine(made) else type(made).__call__
    returns = routine if isinstance(routine, type) else _hints(routine).get("return")
    if isinstance(returns, type) and issubclass(returns, Environment) and not inspect.isabstract(returns):
        return env, returns
    return env, Environment


def _name_of(env: EnvironmentSource, environment_cls: type[Environment]) -> str:
    """The name of the class, or of the factory while the class is unknown."""
    name = environment_cls.__name__ if environment_cls is not Environment else getattr(env, "__name__", "")
    return name if name.isidentifier() else Environment.__name__


def _annotated(cls: type[Environment]) -> Mapping[str, Any]:
    """The classes in the annotations of `reset`, `step` and `state`."""
    hints: dict[str, Any] = {}
    for verb, parameter, role in (("step", "action", "action"), ("reset", "return", "observation")):
        hints[role] = _hints(getattr(cls, verb)).get(parameter)
    state = inspect.getattr_static(cls, "state")
    hints["state"] = _hints(state.fget).get("return") if isinstance(state, property) else None
    return hints


def _hints(function: Any) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except NameError:  # an annotation that exists for type checkers only
        return {}


def _find(cls: type[Environment], base: type, annotated: Any) -> Any:
    candidates = [*_type_arguments(cls), annotated]
    for candidate in candidates:
        if isinstance(candidate, type) and issubclass(candidate, base) and candidate not in (base, OpenAction):
            return candidate
    module = getattr(sys.modules.get(cls.__module__), "__dict__", {})
    if _has_other_environments(cls, module):
        return None  # the one class there may be that of another environment
    known = {v for v in module.values() if isinstance(v, type) and issubclass(v, base) and v not in (base, OpenAction)}
    return known.pop() if len(known) == 1 else None


def _has_other_environments(cls: type[Environment], module: Mapping[str, Any]) -> bool:
    """Whether the module defines environments beside the class, its ancestors and its subclasses."""
    found = (v for v in module.values() if isinstance(v, type) and issubclass(v, Environment))
    return any(v.__module__ == cls.__module__ and not issubclass(v, cls) and not issubclass(cls, v) for v in found)


def _type_arguments(cls: type) -> tuple[Any, ...]:
    for ancestor in cls.__mro__:
        for generic in getattr(ancestor, "__orig_bases__", ()):
            origin = get_origin(generic)
            if isinstance(origin, type) and issubclass(origin, Environment):
                return get_args(generic)
    return ()
