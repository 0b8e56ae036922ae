"""The errors of clients and servers, as one tree of exceptions.

A server sends an error's code, and the client raises the class of that code.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal


class OpenEnvError(RuntimeError):
    """Base of all errors of this library."""


class RequestRefused(OpenEnvError):
    """The server returned an error for a request. The session goes on, unless a subclass documents otherwise.

    `details` holds what the server added, such as pydantic's error rows under `errors`.
    """

    code: ClassVar[str] = "SESSION_ERROR"
    validity: Literal["invalid", "refused"] = "invalid"
    """`refused`: the request was wrong and nothing happened. `invalid`: the environment or its server failed, so the
    step has no outcome, which is not the same as a reward of 0."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __str__(self) -> str:
        rows = self.details.get("errors")
        return self.message if not rows else f"{self.message}: {'; '.join(map(_row_text, rows))}"


class InvalidJSON(RequestRefused):
    """The message is not a JSON object."""

    code = "INVALID_JSON"
    validity = "refused"


class UnknownMessageType(RequestRefused):
    """The message's `type` is none of reset, step, state, close."""

    code = "UNKNOWN_TYPE"
    validity = "refused"


class InvalidMessage(RequestRefused):
    """A field is missing, unknown, or of the wrong type; `details["errors"]` names each."""

    code = "VALIDATION_ERROR"
    validity = "refused"


class EnvironmentFault(RequestRefused):
    """The environment raised an exception; the session goes on.

    A ValueError of `step` refuses the action: `details["refused"]` is True, and `validity` is `refused`. The episode
    stands where it was, and another action may follow.
    """

    code = "EXECUTION_ERROR"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message, **details)
        if details.get("refused") is True:
            self.validity = "refused"


class EpisodeOver(RequestRefused):
    """A step came after the episode's end: reset first."""

    code = "EPISODE_OVER"
    validity = "refused"


class CapacityReached(RequestRefused):
    """The server holds as many sessions as it may."""

    code = "CAPACITY_REACHED"
    validity = "refused"


class FactoryFault(RequestRefused):
    """The environment could not be made."""

    code = "FACTORY_ERROR"


class SessionFault(RequestRefused):
    """The session is unknown, ended, or broken."""

    code = "SESSION_ERROR"


class TimeLimitExceeded(RequestRefused):
    """A verb ran for longer than its limit. The episode is gone; `reset()` starts another in the same session."""

    code = "TIMEOUT"


class WorkerCrashed(RequestRefused):
    """The process of the environment ended by itself. The episode is gone; `reset()` starts another."""

    code = "WORKER_CRASHED"


class NotSupported(RequestRefused):
    """The environment cannot do that, such as being saved."""

    code = "NOT_SUPPORTED"
    validity = "refused"


class UnknownTask(RequestRefused):
    """The environment has no such split, or no task of that number in it."""

    code = "UNKNOWN_TASK"
    validity = "refused"


class MessageTooBig(RequestRefused):
    """A request is above the server's limit, and nothing happened; or a response is above the client's limit, and the
    request took effect. The message names which."""

    code = "MESSAGE_TOO_BIG"
    validity = "refused"


class Unauthorized(RequestRefused):
    """The bearer token is missing or wrong."""

    code = "UNAUTHORIZED"
    validity = "refused"


class ServerUnreachable(OpenEnvError, ConnectionError):
    """No connection to the server could be made."""


class NotReady(ServerUnreachable, TimeoutError):
    """A started server did not become healthy in time, or has exited."""


class ContainerFault(OpenEnvError):
    """The tool that runs containers or processes (docker, kubectl, uv, git) failed; the message holds its output."""


class SessionLost(OpenEnvError, ConnectionError):
    """The connection broke and the episode with it. `reset()` connects again and starts a new episode."""


class SessionGone(SessionLost):
    """The server does not know the session any more: it was restarted, or the grace period is over."""


class UnreadableResponse(OpenEnvError, ValueError):
    """The server's response does not fit the client's classes. The request took effect, and the session goes on."""


class AnswerTimeout(OpenEnvError, TimeoutError):
    """The server sent no response in time. The session goes on; a late response is dropped."""


_BY_CODE: Mapping[str, type[RequestRefused]] = {cls.code: cls for cls in RequestRefused.__subclasses__()}


def error_from_wire(data: Mapping[str, Any]) -> RequestRefused:
    """The exception that an error frame's data stands for."""
    details = {key: value for key, value in data.items() if key not in ("message", "code")}
    cls = _BY_CODE.get(data.get("code", ""), SessionFault)
    return cls(str(data.get("message", "the server sent no message")), **details)


def is_refused_action(error: OpenEnvError) -> bool:
    """Whether a step failed because of its action alone: its class or the environment does not take it."""
    return isinstance(error, InvalidMessage) or (isinstance(error, EnvironmentFault) and error.validity == "refused")


def _row_text(row: Any) -> str:
    """One pydantic error row as text: field, rule, and the value received."""
    if not isinstance(row, Mapping):
        return str(row)
    field = ".".join(map(str, row.get("loc", ()))) or "message"
    return f"{field}: {row.get('msg')} (got {row.get('input')!r})"
