"""Makes an application of whatever can be served: an application, an environment, or a factory of either."""

import dataclasses
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.runner.env_spec import DERIVE, EnvSpec, resolve_env_spec

if TYPE_CHECKING:
    from fastapi import FastAPI

AppSource: TypeAlias = "FastAPI | str | Callable[[], FastAPI] | type[Environment] | Environment"

_OWN_REFERENCES = 2
"""What `sys.getrefcount` returns at most for an object that only one local variable refers to."""
_REMEDY = "give an application, an Environment class, or a function without parameters that returns one of them"


def load_app(
    source: AppSource, config: ServerConfig | None = None, *, default: ServerConfig | None = None
) -> "FastAPI":
    """The application that serves `source`.

    Args:
        source: an application, an Environment class or instance, a function that returns an application or an
            environment, or `MODULE:NAME` of one of these.
        config: limits for an environment; an application has its own, and is refused beside them.
        default: the limits of an environment without `config`.

    Raises:
        LookupError: if the module has no such attribute.
        ImportError: if the module cannot be imported.
        ValueError: for what cannot be served, or for a `config` beside an application.
        RuntimeError: if the function of `MODULE:NAME` raises. What another function raises is passed on.
    """
    named = repr(source) if not isinstance(source, str) else source
    found: Any = _import(source) if isinstance(source, str) else source
    if not is_application(found):
        _check_callable(found, named)
        found = _declared_spec(found, named) or _called(found, named, by_name=source is not found)
    if not is_application(found):
        from openenv.web.application import app_of  # an application that an author made may be without pages

        spec = found if isinstance(found, EnvSpec) else resolve_env_spec(found)
        return app_of(spec, config or default or ServerConfig())
    if config is not None:
        raise ValueError(
            f"{named} is an application, which has limits of its own: set them in its create_app(config=...)"
        )
    return found


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


def _declared_spec(source: Any, named: str) -> EnvSpec | None:
    """The specification of an environment, its class, or a function that declares to return one; None of others, which
    are called."""
    if isinstance(source, Environment) or (isinstance(source, type) and issubclass(source, Environment)):
        return _spec_of(source, named)
    try:
        return resolve_env_spec(source)
    except TypeError:
        return None


def _spec_of(environment: Any, named: str) -> EnvSpec:
    """The specification of an environment or its class. Raises ValueError for one that cannot be served."""
    try:
        return resolve_env_spec(environment)
    except TypeError as error:
        raise ValueError(f"{named} cannot be served: {error}") from error


def _check_callable(source: Any, named: str) -> None:
    """Raises ValueError unless this is an environment, or makes something without arguments."""
    if isinstance(source, Environment):
        return
    if not callable(source):
        raise ValueError(f"{named} is of type {type(source).__name__}, which cannot be served: {_remedy(source)}")
    if isinstance(source, type) and hasattr(source, "step") and not issubclass(source, Environment):
        raise ValueError(f"{named} is no Environment: {_remedy(source)}")
    required = [p.name for p in _parameters(source).values()
                if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]  # fmt: skip
    if required:
        raise ValueError(f"{named} needs arguments ({', '.join(required)}), which the server cannot know: {_REMEDY}")


def _remedy(served: Any) -> str:
    """What the author of an object that cannot be served does."""
    if isinstance(served, ModuleType):
        return f"it is a module, so write the name of what is in it: {served.__name__}:NAME"
    kind = served if isinstance(served, type) else type(served)
    return _REMEDY if kind.__module__ == "builtins" else f"{DERIVE}, or {_REMEDY}"


def _made(factory: Any, named: str) -> Any:
    """What a function returns, with errors for the command line on which `MODULE:NAME` was written."""
    try:
        return factory()
    except ValueError:
        raise
    except Exception as error:  # border: an author's function may raise anything
        raise RuntimeError(
            f"{named} raised {type(error).__name__} when the server called it: {error}. Mend it, or {_REMEDY}"
        ) from error


def _called(factory: Any, named: str, *, by_name: bool) -> Any:
    """The application that a function returns, or the specification of its environments."""
    made = _made(factory, named) if by_name else factory()
    if is_application(made):
        return made
    if not isinstance(made, Environment):
        raise ValueError(f"{named} returned {type(made).__name__}, which cannot be served: {_remedy(made)}")
    # It was made to know its class, which an annotation says too. Something else refers to the one object of a factory
    # that always returns the same; the sessions are still to use that.
    if sys.getrefcount(made) <= _OWN_REFERENCES:
        made.close()
    declared = _spec_of(type(made), named)
    spec = resolve_env_spec(factory, declared.action_cls, declared.observation_cls, declared.state_cls, declared.name)
    return dataclasses.replace(spec, environment_cls=type(made))


def _import(target: str) -> Any:
    """The object that `MODULE:NAME` stands for. Raises LookupError or ImportError that says what to write instead."""
    module_name, _, attribute = target.partition(":")
    if not attribute:
        raise LookupError(f"{target!r} names nothing in a module: write MODULE:NAME, such as {with_colon(target)}")
    module = _import_module(module_name, attribute)
    found: Any = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise LookupError(
                f"module {module_name} has no {attribute!r}: write the name of an application, an Environment class or "
                f"a factory, such as {module_name}:{_example_name(module)}"
            )
        found = getattr(found, name)
    return found


def with_colon(target: str) -> str:
    """What a user may have meant by a target without a NAME, as `MODULE:NAME`."""
    module, _, name = target.removesuffix(":").removesuffix(".py").replace("/", ".").strip(".").rpartition(".")
    if target.endswith((":", ".py")):
        module, name = f"{module}.{name}".strip("."), "app"
    return f"{module}:{name}" if module else "my_env.server.app:app"


def _import_module(name: str, attribute: str) -> ModuleType:
    if not name or "/" in name or name.startswith("."):
        example = name.strip("./").removesuffix(".py").replace("/", ".") or "my_env.environment"
        raise LookupError(f"{name!r} before the colon is no name of a module: write {example}:{attribute}")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None:
            raise
        if not f"{name}.".startswith(f"{error.name}."):
            reason = f"module {name} imports {error.name}, which is not installed: pip install what provides it"
        elif name.endswith(".py"):
            reason = f"{name} is a file: write the module's name, {name.removesuffix('.py')}:{attribute}"
        else:
            reason = f"there is no module {error.name!r}: run in the folder that has it, or install its package"
        raise ModuleNotFoundError(reason, name=error.name) from error
    except Exception as error:  # border: an author's module may raise anything
        remedy = ""
        if isinstance(error, ImportError) and "relative import" in str(error):
            remedy = ". It is no part of a package here: import by the whole name, or name it as PACKAGE.MODULE:NAME"
        raise ImportError(
            f"module {name} cannot be imported: {type(error).__name__}: {error}{_place_of(error)}{remedy}"
        ) from error


def _place_of(error: Exception) -> str:
    """The last line that ran before an exception was raised; a SyntaxError has its own place in its text."""
    if isinstance(error, SyntaxError) or error.__traceback__ is None:
        return ""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f" ({frame.filename}, line {frame.lineno})"


def _example_name(module: ModuleType) -> str:
    """An Environment class of the module, or `app` where there is none."""
    classes = [(name, value) for name, value in vars(module).items() if isinstance(value, type)]
    names = (name for name, value in classes if issubclass(value, Environment) and not inspect.isabstract(value))
    return next(names, "app")
