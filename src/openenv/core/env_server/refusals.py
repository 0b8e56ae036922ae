"""How refused requests look in the OpenAPI schema, so that a generated client knows what may come."""

from typing import Any

from pydantic import BaseModel, Field


class Refusal(BaseModel):
    """Body of every answer that is no success."""

    detail: Any = Field(description="What is wrong: a sentence, or a row for each wrong field")
    code: str | None = Field(default=None, description="The failure by its name, as in error frames of /ws")
    message: str | None = Field(default=None, description="The same as a sentence")


_MEANING = {
    400: "The body cannot be read, or the environment has no such task",
    404: "The session, or the environment, is unknown or has ended",
    409: "The episode is over: reset first",
    413: "The message is larger than the server takes",
    422: "A field is missing, unknown, or of the wrong type",
    500: "The environment raised: it refuses the action, or failed (EXECUTION_ERROR, FACTORY_ERROR)",
    501: "The environment cannot do that (NOT_SUPPORTED)",
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
