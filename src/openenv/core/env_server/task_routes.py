"""The task API: what data set an environment draws its episodes from, without opening a session."""

from typing import Any

import orjson
from fastapi import APIRouter, HTTPException, Response

from openenv.core.env_server.messages import GetTaskRangeRequest, GetTaskRequest, ListTasksRequest, NumTasksRequest
from openenv.core.env_server.refusals import TASK_REFUSALS
from openenv.core.env_server.sessions import Sessions

_SPLIT_TYPES = {"train", "validation", "test"}


def task_routes(sessions: Sessions, env_name: str) -> APIRouter:
    """The routes below `/{env_name}`. An environment that has no tasks answers 501."""
    router = APIRouter(tags=["tasks"])

    async def asked(name: str, question: str, *arguments: Any) -> bytes:
        if name.lower() != env_name.lower():
            raise HTTPException(404, f"unknown environment {name!r}")
        return await sessions.describe(question, list(arguments))

    @router.get("/list_environments", response_model=list[str])
    async def list_environments() -> list[str]:
        """The environment that this server serves."""
        return [env_name]

    @router.get("/{name}/splits", response_model=list[dict[str, Any]], responses=TASK_REFUSALS)
    async def splits(name: str) -> list[dict[str, Any]]:
        """The splits of the data set, each with its name and type."""
        return [_split(entry) for entry in orjson.loads(await asked(name, "list_splits"))]

    @router.post("/{name}/tasks", response_model=dict[str, Any], responses=TASK_REFUSALS)
    async def tasks(name: str, body: ListTasksRequest) -> Response:
        """All tasks of a split."""
        listed = await asked(name, "list_tasks", body.split)
        return _json(b'{"tasks":%b,"env_name":%b}' % (listed, orjson.dumps(env_name)))

    @router.post("/{name}/num_tasks", response_model=dict[str, int], responses=TASK_REFUSALS)
    async def num_tasks(name: str, body: NumTasksRequest) -> Response:
        """How many tasks a split has."""
        return _json(b'{"num_tasks":%b}' % await asked(name, "num_tasks", body.split))

    @router.post("/{name}/task", response_model=dict[str, Any], responses=TASK_REFUSALS)
    async def task(name: str, body: GetTaskRequest) -> Response:
        """One task of a split; 400 when it has none of that number."""
        return _json(b'{"task":%b}' % await asked(name, "get_task", body.split, body.index))

    @router.post("/{name}/task_range", response_model=dict[str, Any], responses=TASK_REFUSALS)
    async def task_range(name: str, body: GetTaskRangeRequest) -> Response:
        """The tasks from `start` up to, without, `stop`."""
        return _json(b'{"tasks":%b}' % await asked(name, "get_task_range", body.split, body.start, body.stop))

    return router


def _split(entry: Any) -> dict[str, Any]:
    if isinstance(entry, dict):
        return entry
    name = str(entry)
    return {"name": name, "type": name if name in _SPLIT_TYPES else "validation"}


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")
