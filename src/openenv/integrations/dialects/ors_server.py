"""Serves any environment of ours over the routes of the Open Reward Standard: `openenv serve NAME --dialect ors`.

A task is a seed: the split `train` has the first ones, `test` as many after them. A tool call is a step.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Body, Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from openenv.auto.environment import ServedEnvironment
from openenv.auto.schema_client import describe_server
from openenv.core.env_server.mcp_types import CallToolAction, Tool
from openenv.core.errors import EnvironmentFault, OpenEnvError, RequestRefused
from openenv.formats.json_text import json_text
from openenv.text.action_forms import JsonForm
from openenv.text.content import Content

SPLITS = ("train", "test")
_KEEPALIVE_S = 10.0
"""Between the comments of a stream that waits for a step."""

Json = dict[str, Any]


@dataclass
class _Session:
    """A session of a client, which has one episode."""

    client: Any
    observation: Any
    done: bool = False
    calls: dict[str, "asyncio.Task[str]"] = field(default_factory=dict)
    """By the id that a client repeats to resume a call whose stream broke."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


def ors_app(served: ServedEnvironment, *, name: str = "", num_tasks: int = 1000, reset: Json | None = None) -> FastAPI:
    """The application.

    Args:
        name: of the environment in the routes; by default that of its server.
        num_tasks: of each split.
        reset: keywords of every reset.

    Raises:
        ServerUnreachable: without the environment's server.
    """
    bridge = ORSBridge(served, name, num_tasks, reset or {})

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await bridge.close()

    app = FastAPI(title=f"{bridge.name} over the Open Reward Standard", lifespan=lifespan)
    _add_routes(app, bridge)
    return app


class ORSBridge:
    """The environment as that standard has it: tools, tasks, and sessions."""

    def __init__(self, served: ServedEnvironment, name: str, num_tasks: int, reset: Json) -> None:
        self._served, self._num_tasks, self._reset = served, num_tasks, reset
        described = describe_server(served.base_url, headers=served.headers)
        self.name = (name or described.name).lower()
        self._description = described.description
        self._action_class = served.client_class._message_classes[0]
        self._tools = list(described.tools) or JsonForm(self._action_class).functions()
        self._has_tools = bool(described.tools)
        self._sessions: dict[str, _Session] = {}

    @property
    def tools(self) -> Json:
        """The tools; an environment without any has its action as one."""
        return {"tools": [tool.model_dump() for tool in self._tools], "terminal_tool": None}

    def require_name(self, name: str) -> None:
        """Raises HTTPException for another environment."""
        if name.lower() != self.name:
            raise HTTPException(404, f"unknown environment {name!r}: there is {self.name}")

    def task(self, split: str, index: int) -> Json:
        """A task. Raises HTTPException for an unknown split or index."""
        number = self.tasks_of(split)
        if not 0 <= index < number:
            raise HTTPException(400, f"Invalid index {index}: the split has {number} tasks")
        return {**self._reset, "seed": index + SPLITS.index(split) * self._num_tasks}

    def tasks_of(self, split: str) -> int:
        """The number of tasks. Raises HTTPException for an unknown split."""
        if split not in SPLITS:
            raise HTTPException(400, f"Invalid split {split!r}: there are {', '.join(SPLITS)}")
        return self._num_tasks

    def session(self, sid: str) -> _Session:
        """A session that was created. Raises HTTPException for another id."""
        found = self._sessions.get(sid)
        if found is None:
            raise HTTPException(404, "Active environment not found")
        return found

    async def create(self, sid: str, keywords: Mapping[str, Any]) -> None:
        """Begin the episode of a session. Raises HTTPException where the environment refuses the keywords."""
        if sid in self._sessions:
            raise HTTPException(400, "Session already exists")
        client = await self._served.client()
        try:
            first = await client.reset(**keywords)
        except OpenEnvError as error:
            await client.close()
            raise HTTPException(400 if isinstance(error, RequestRefused) else 500, str(error)) from error
        self._sessions[sid] = _Session(client, first.observation, first.done)

    async def delete(self, sid: str) -> None:
        """End a session, if there is one."""
        session = self._sessions.pop(sid, None)
        if session is not None:
            for call in session.calls.values():
                call.cancel()
            await session.client.close()

    async def close(self) -> None:
        """End all sessions."""
        for sid in list(self._sessions):
            await self.delete(sid)

    def prompt(self, session: _Session) -> list[Json]:
        """The rules and the first observation."""
        text = self._served.text
        return _blocks(text.rules(session.observation)) + _blocks(text.describe(session.observation))

    async def call(self, session: _Session, name: str, arguments: Json) -> str:
        """Step with a call; return the result as JSON. Raises EnvironmentFault."""
        async with session.turn:
            if session.done:
                return _refused("the episode is over", "episode_finished")
            tool = next((tool for tool in self._tools if tool.name == name), None)
            if tool is None:
                names = ", ".join(tool.name for tool in self._tools)
                return _refused(f"there is no tool {name!r:.80}. Tools: {names}", "not_found")
            try:
                result = await session.client.step(self._action(tool, arguments))
            except ValidationError as error:
                problems = (f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors())
                return _refused("; ".join(problems), "input_validation")
            except (EnvironmentFault, RequestRefused) as error:
                return _refused(str(error), None)
            session.observation, session.done = result.observation, result.done
            output = {
                "blocks": _blocks(self._served.text.describe(result.observation)),
                "metadata": {"observation": result.observation.model_dump(mode="json")},
                "reward": result.reward,
                "finished": result.done,
            }
            return json_text({"ok": True, "output": output})

    def _action(self, tool: Tool, arguments: Json) -> Any:
        if self._has_tools:
            return CallToolAction(tool_name=tool.name, arguments=arguments)
        return self._action_class.model_validate(arguments)


def _add_routes(app: FastAPI, bridge: ORSBridge) -> None:
    """Routes of the server, and those of the environment with and without its name before them."""
    _add_server_routes(app, bridge)

    async def require_name(request: Request) -> None:
        bridge.require_name(request.path_params.get("name", bridge.name))

    named = APIRouter(dependencies=[Depends(require_name)])
    _add_task_routes(named, bridge)
    _add_episode_routes(named, bridge)
    app.include_router(named)
    app.include_router(named, prefix="/{name}")


async def _sid(x_session_id: Annotated[str | None, Header()] = None) -> str:
    if not x_session_id:
        raise HTTPException(400, "X-Session-ID header is required")
    return x_session_id.strip()


Sid = Annotated[str, Depends(_sid)]


def _add_server_routes(app: FastAPI, bridge: ORSBridge) -> None:
    @app.get("/health")
    async def health() -> Json:
        return {"status": "ok"}

    @app.get("/list_environments")
    async def list_environments() -> list[str]:
        return [bridge.name]

    @app.post("/create_session")
    async def create_session() -> StreamingResponse:
        async def nothing() -> str:
            return ""

        return _stream(nothing, str(uuid4()), {})

    @app.post("/create")
    async def create(sid: Sid, body: Json) -> Json:
        bridge.require_name(str(body.get("env_name") or bridge.name))
        keywords = body.get("task_spec")
        if keywords is None:
            keywords = bridge.task(str(body.get("split")), int(body.get("index", -1)))
        await bridge.create(sid, keywords)
        return {"sid": sid}

    @app.post("/ping")
    async def ping(sid: Sid) -> Json:
        bridge.session(sid)
        return {"status": "ok"}

    @app.post("/delete")
    @app.post("/delete_session")
    async def delete(sid: Sid) -> Json:
        await bridge.delete(sid)
        return {"sid": sid}


def _add_task_routes(router: APIRouter, bridge: ORSBridge) -> None:
    @router.get("/tools")
    async def tools() -> Json:
        return bridge.tools

    @router.get("/splits")
    async def splits() -> list[Json]:
        return [{"name": split, "type": split} for split in SPLITS]

    @router.post("/tasks")
    async def tasks(split: Annotated[str, Body(embed=True)]) -> Json:
        return {"tasks": [bridge.task(split, i) for i in range(bridge.tasks_of(split))], "env_name": bridge.name}

    @router.post("/num_tasks")
    async def num_tasks(split: Annotated[str, Body(embed=True)]) -> Json:
        return {"num_tasks": bridge.tasks_of(split)}

    @router.post("/task")
    async def task(split: Annotated[str, Body()], index: Annotated[int, Body()]) -> Json:
        return {"task": bridge.task(split, index), "env_name": bridge.name}

    @router.post("/task_range")
    async def task_range(
        split: Annotated[str, Body()],
        start: Annotated[int | None, Body()] = None,
        stop: Annotated[int | None, Body()] = None,
    ) -> Json:
        chosen = range(bridge.tasks_of(split))[start:stop]
        return {"tasks": [bridge.task(split, index) for index in chosen], "env_name": bridge.name}


def _add_episode_routes(router: APIRouter, bridge: ORSBridge) -> None:
    @router.get("/task_tools")
    async def task_tools(sid: Sid) -> Json:
        bridge.session(sid)
        return bridge.tools

    @router.get("/prompt")
    async def prompt(sid: Sid) -> list[Json]:
        return bridge.prompt(bridge.session(sid))

    @router.post("/call")
    async def call(sid: Sid, body: Json) -> StreamingResponse:
        session = bridge.session(sid)
        task_id = body.get("task_id")
        if task_id is not None and task_id not in session.calls:
            raise HTTPException(404, f"unknown task_id {task_id!r}")
        name, arguments = str(body.get("name")), body.get("input") or {}
        return _stream(lambda: bridge.call(session, name, arguments), task_id or uuid4().hex, session.calls)


def _stream(
    make: Callable[[], Awaitable[str]], task_id: str, running: dict[str, "asyncio.Task[str]"]
) -> StreamingResponse:
    """A stream of events: the id of the task, comments while it runs, and its result. An id that runs is not run
    again."""
    if task_id not in running:
        running[task_id] = asyncio.ensure_future(make())
    task = running[task_id]

    async def events() -> AsyncIterator[str]:
        yield f"event: task_id\ndata: {task_id}\n\n"
        while not task.done():
            await asyncio.wait([task], timeout=_KEEPALIVE_S)
            if not task.done():
                yield ": waiting\n\n"
        error = task.exception()
        if error is not None:
            yield f"event: error\ndata: {' '.join(str(error).split())}\n\n"
            return
        yield f"event: end\ndata: {task.result()}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


def _refused(error: str, reason: str | None) -> str:
    return json_text({"ok": False, "error": error, "reason": reason})


def _blocks(content: Content) -> list[Json]:
    """A text, or parts of text and images, as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_image_block(part["image"]) if part["type"] == "image" else _text_block(part["text"]) for part in content]


def _text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def _image_block(url: str) -> Json:
    """The block of an image that is a data URL."""
    head, _, data = url.partition(",")
    return {"type": "image", "data": data, "mimeType": head.removeprefix("data:").removesuffix(";base64")}
