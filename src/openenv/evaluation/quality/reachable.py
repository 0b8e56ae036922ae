"""Does the server answer, and say what its messages are?"""

from typing import Any

import httpx

from openenv.evaluation.quality.findings import Finding, failed, passed
from openenv.evaluation.quality.subject import Subject

_MESSAGES = ("action", "observation", "state")


async def reachable(subject: Subject) -> Finding:
    """`/health` and `/schema` answer, and `/ws` opens."""
    address = subject.address
    async with httpx.AsyncClient(
        base_url=address.base_url, headers=dict(address.headers), timeout=address.answer_s, trust_env=False
    ) as http:
        try:
            health, schema = await http.get("/health"), await http.get("/schema")
        except httpx.HTTPError as error:
            return failed(
                f"no answer at {address.base_url}: {error or type(error).__name__}", "start the server, or mend the URL"
            )
    if health.status_code != 200:
        return failed(f"/health answers {health.status_code}", "answer 200 as long as the server works")
    if schema.status_code == 401:
        return failed("the server wants a token", "set OPENENV_TOKEN to the server's token")
    schemas = _schemas(schema)
    if schemas is None:
        return failed(f"/schema answers {schema.status_code} without action, observation and state",
                      "serve the environment with create_app(...)")  # fmt: skip
    subject.schemas = schemas
    async with subject.dialogue():
        return passed(f"healthy at {address.base_url}")


def _schemas(response: httpx.Response) -> dict[str, Any] | None:
    try:
        said = response.json()
    except ValueError:
        return None
    complete = isinstance(said, dict) and all(isinstance(said.get(name), dict) for name in _MESSAGES)
    return said if complete else None
