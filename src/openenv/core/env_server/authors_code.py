"""What an author's code raises, as what it is to a client."""

import asyncio
import logging
import re
from typing import NoReturn

from openenv.core.errors import EnvironmentFault, NotSupported, TimeLimitExceeded, UnknownTask

log = logging.getLogger(__name__)

_PATH = re.compile(r"(?<![\w:/.<])/[\w.-]+(?:/[\w.-]*)+")
"""An absolute path of two parts or more; not a fraction, an alternative or a URL."""


class AuthorsCode:
    """What an author's code raises inside is to a client its message; the traceback goes to the log alone.

    It may raise anything. What stays itself is our own errors, and a cancellation that was asked of the task.
    """

    __slots__ = ("_verb",)

    def __init__(self, verb: str) -> None:
        self._verb = verb

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None:
            raise_authors(self._verb, error)


def raise_authors(verb: str, error: BaseException) -> NoReturn:
    """Raise what an author's code raised, as what it is to a client."""
    if isinstance(error, TimeLimitExceeded | NotSupported | UnknownTask):
        raise error
    if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
        raise error
    log.info("%s raised", verb, exc_info=error)
    if isinstance(error, SystemExit):
        raise EnvironmentFault(f"{verb}() called sys.exit({error.code!r})") from error
    raise EnvironmentFault(without_paths(str(error)) or type(error).__name__) from error


def _is_being_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs here
        return False
    return task is not None and task.cancelling() > 0


def without_paths(text: str) -> str:
    """`text` with the server's file paths left out: they are in the log, and no business of a remote caller."""
    return _PATH.sub("<path>", text)
