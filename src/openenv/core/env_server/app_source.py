"""Where an application comes from: it is there, a name says where it lies, or a function makes it."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

if TYPE_CHECKING:
    from fastapi import FastAPI

AppSource: TypeAlias = "FastAPI | str | Callable[[], FastAPI]"


def made_from(source: AppSource) -> "FastAPI":
    """The application: `source` itself, what `MODULE:APP` names, or what a function returns. Raises LookupError when
    there is none of that name, ImportError, and what the function does."""
    if isinstance(source, str):
        return _named(source)
    return source if is_application(source) else source()  # type: ignore[call-arg,return-value]


def is_application(source: AppSource) -> "TypeGuard[FastAPI]":
    """Whether it is an application already."""
    return hasattr(source, "state")


def _named(target: str) -> "FastAPI":
    module_name, _, attribute = target.partition(":")
    module = importlib.import_module(module_name)
    if not attribute or not hasattr(module, attribute):
        raise LookupError(f"module {module_name} has no {attribute!r}: write MODULE:APP, such as my_env.server.app:app")
    app: FastAPI = getattr(module, attribute)
    return app
