"""Error responses in the OpenAPI schema, so that a generated client knows each status and its body."""

from typing import Any

from pydantic import BaseModel, Field


class Refusal(BaseModel):
    """Body of every error response."""

    detail: Any = Field(description="A sentence, or a row for each invalid field")
    code: str | None = Field(default=None, description="The name of the error, as in error frames of /ws")
    message: str | None = Field(default=None, description="The error as a sentence")


_MEANING = {
    400: "The body is invalid JSON, or the environment has no such task",
    404: "The session, or the environment, is unknown or has ended",
    409: "The episode is over: reset first",
    413: "The message is larger than the server accepts",
    422: "A field is missing, unknown, or of the wrong type",
    500: "The environment raised (EXECUTION_ERROR, FACTORY_ERROR)",
    501: "The environment does not support the request (NOT_SUPPORTED)",
    502: "The environment's process crashed (WORKER_CRASHED)",
    503: "The server is full or stopping (CAPACITY_REACHED)",
    504: "The verb took longer than its limit (TIMEOUT)",
}
_Documented = dict[int | str, dict[str, Any]]


def _documented(*statuses: int) -> _Documented:
    return {status: {"model": Refusal, "description": _MEANING[status]} for status in statuses}


VERB_REFUSALS = _documented(400, 404, 409, 413, 422, 500, 501, 502, 503, 504)
END_REFUSALS = _documented(404, 422)
DESCRIBE_REFUSALS = _documented(500, 501, 504)
TASK_REFUSALS = _documented(400, 404, 413, 422, 500, 501, 502, 503, 504)
