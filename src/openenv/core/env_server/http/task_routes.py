"""The task API: lists the splits and tasks of an environment with a data set."""

from typing import Any

import orjson
from fastapi import APIRouter, HTTPException, Response

from openenv.core.env_server.http.openapi_errors import TASK_REFUSALS
from openenv.core.env_server.http.route_class import json_bytes
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.types import GetTaskRangeRequest, GetTaskRequest, ListTasksRequest, NumTasksRequest

_SPLIT_TYPES = {"train", "validation", "test"}


def task_routes(sessions: SessionManager, env_name: str) -> APIRouter:
    """The routes below `/{env_name}`. For an environment without tasks they return 501."""
    router = APIRouter(tags=["tasks"])

    async def describe(name: str, method: str, *arguments: Any) -> bytes:
        if name.lower() != env_name.lower():
            raise HTTPException(404, f"unknown environment {name!r}")
        return await sessions.describe(method, list(arguments))

    @router.get("/list_environments", response_model=list[str])
    async def list_environments() -> list[str]:
        """The environment that this server serves."""
        return [env_name]

    @router.get("/{name}/splits", response_model=list[dict[str, Any]], responses=TASK_REFUSALS)
    async def splits(name: str) -> list[dict[str, Any]]:
        """The splits of the data set, each with its name and type."""
        return [_split(entry) for entry in orjson.loads(await describe(name, "list_splits"))]

    @router.post("/{name}/tasks", response_model=dict[str, Any], responses=TASK_REFUSALS)
    async def tasks(name: str, body: ListTasksRequest) -> Response:
        """All tasks of a split."""
        listed = await describe(name, "list_tasks", body.split)
        return json_bytes(b'{"tasks":%b,"env_name":%b}' % (listed, orjson.dumps(env_name)))

    @router.post("/{name}/num_tasks", response_model=dict[str, int], responses=TASK_REFUSALS)
    async def num_tasks(name: str, body: NumTasksRequest) -> Response:
        """How many tasks a split has."""
        return json_bytes(b'{"num_tasks":%b}' % await describe(name, "num_tasks", body.split))

    @router.post("/{name}/task", response_model=dict[str, Any], responses=TASK_REFUSALS)
    async def task(name: str, body: GetTaskRequest) -> Response:
        """One task of a split; 400 when the split has no such index."""
        return json_bytes(b'{"task":%b}' % await describe(name, "get_task", body.split, body.index))

    @router.post("/{name}/task_range", response_model=dict[str, Any], responses=TASK_REFUSALS)
    async def task_range(name: str, body: GetTaskRangeRequest) -> Response:
        """The tasks from `start` up to, not including, `stop`."""
        return json_bytes(b'{"tasks":%b}' % await describe(name, "get_task_range", body.split, body.start, body.stop))

    return router


def _split(entry: Any) -> dict[str, Any]:
    if isinstance(entry, dict):
        return entry
    name = str(entry)
    return {"name": name, "type": name if name in _SPLIT_TYPES else "validation"}
