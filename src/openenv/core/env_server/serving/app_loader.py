"""Makes an application of whatever can be served: an application, an environment, or a factory of either."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.http.routes import environment_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.runner.env_spec import EnvSpec, resolve_env_spec
from openenv.core.env_server.serving.any_uvicorn import add_own_connections

if TYPE_CHECKING:
    from fastapi import FastAPI

AppSource: TypeAlias = "FastAPI | str | Callable[[], FastAPI] | type[Environment] | Environment"

_REMEDY = "give an application, an Environment class, or a function without parameters that returns one of them"


def load_app(
    source: AppSource, config: ServerConfig | None = None, *, default: ServerConfig | None = None
) -> "FastAPI":
    """The application that serves `source`.

    source: an application, an Environment class or instance, a function that returns an application or an environment,
    or `MODULE:NAME` of one of these. config: limits for an environment; an application has its own, and is refused
    beside them. default: the limits of an environment without `config`.

    Raises LookupError when the module has no such attribute, ImportError, ValueError for what cannot be served or for
    a `config` beside an application, and what a function raises.
    """
    named = repr(source) if not isinstance(source, str) else source
    found: Any = _import(source) if isinstance(source, str) else source
    if not (is_application(found) or _is_known(found)):
        found = _called(found, named)
    if not is_application(found):
        spec = found if isinstance(found, EnvSpec) else resolve_env_spec(found)
        return app_of(spec, config or default or ServerConfig())
    if config is not None:
        raise ValueError(
            f"{named} is an application, which has limits of its own: set them in its create_app(config=...)"
        )
    return found


def app_of(spec: EnvSpec, config: ServerConfig, *, has_page: bool | None = None) -> "FastAPI":
    """The application of an environment, for any server. has_page: as in `environment_app`."""
    app = environment_app(spec, config, has_page=has_page)
    add_own_connections(app, config)
    return app


def is_application(source: Any) -> "TypeGuard[FastAPI]":
    """Whether the source is an application already."""
    if isinstance(source, type) or not callable(source):
        return False
    return hasattr(source, "router") or list(_parameters(source)) == ["scope", "receive", "send"]


def setting_of(app: Any, name: str) -> Any:
    """An attribute of the application's `state`; None for an application that an author made around one of ours."""
    return getattr(getattr(app, "state", None), name, None)


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError:  # of a builtin
        return {}


def _is_known(source: Any) -> bool:
    """Whether this is an environment, its class, or a function that declares to return one, which need not be called
    to know that."""
    try:
        resolve_env_spec(source)
    except TypeError:
        return False
    return True


def _called(factory: Any, named: str) -> Any:
    """The application that a function returns, or the specification of its environments."""
    if not callable(factory):
        raise ValueError(f"{named} is of type {type(factory).__name__}, which cannot be served: {_REMEDY}")
    required = [p.name for p in _parameters(factory).values()
                if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]  # fmt: skip
    if required:
        raise ValueError(f"{named} needs arguments ({', '.join(required)}), which the server cannot know: {_REMEDY}")
    made = factory()
    if is_application(made):
        return made
    if not isinstance(made, Environment):
        raise ValueError(f"{named} returned {type(made).__name__}, which cannot be served: {_REMEDY}")
    made.close()  # it was made to know its class, which an annotation says too
    declared = resolve_env_spec(type(made))
    return resolve_env_spec(factory, declared.action_cls, declared.observation_cls, declared.state_cls, declared.name)


def _import(target: str) -> Any:
    module_name, _, attribute = target.partition(":")
    found: Any = importlib.import_module(module_name)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise LookupError(f"module {module_name} has no {attribute!r}: write MODULE:NAME, such as "
                              "my_env.server.app:app")  # fmt: skip
        found = getattr(found, name)
    return found
