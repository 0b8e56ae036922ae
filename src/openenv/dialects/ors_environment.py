"""Environments of an Open Reward Standard server as environments of ours: `openenv serve ors:URL`.

A session there is one episode here. A tool that ends the episode on a plain message, which that standard hides from the
model, is a tool like the others here.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, Tool, ToolErrorType
from openenv.core.env_server.runner.env_spec import EnvSpec, resolve_env_spec
from openenv.core.errors import ServerUnreachable
from openenv.core.net.http_clients import async_http_client, http_client
from openenv.dialects.tool_environment import MessageObservation, ToolCallingEnvironment, ToolOutcome

_ERROR_TYPES = {"not_found": ToolErrorType.TOOL_NOT_FOUND, "input_validation": ToolErrorType.INVALID_ARGS}
_PING_S = 60.0
"""The server forgets a session that it has not heard of for a quarter of an hour."""


def ors_spec(url: str, *, timeout_s: float = 300.0) -> EnvSpec:
    """The specification of the environment of a server.

    url: of the server, and in its path the environment's name; without one it is the server's first. timeout_s: for
    each request. Raises ServerUnreachable, and LookupError for a name that the server does not have.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"ors:{url}: write ors:http://HOST:PORT, or ors:http://HOST:PORT/ENVIRONMENT")
    base_url, wanted = f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
    try:
        with http_client(base_url, timeout=timeout_s) as http:
            response = http.get(f"{base_url}/list_environments")
        response.raise_for_status()
        names = [str(name) for name in response.json()]
    except (httpx.HTTPError, ValueError) as error:
        raise ServerUnreachable(
            f"{base_url} does not answer as a server of the Open Reward Standard: {error}"
        ) from error
    name = wanted or next(iter(names), "")
    if name.lower() not in {known.lower() for known in names}:
        raise LookupError(f"ors:{url}: the server has no environment {name!r}, but {', '.join(names)}")
    title = name.title().replace("_", "").replace("-", "")
    return resolve_env_spec(
        lambda: ORSEnvironment(base_url, name, title, timeout_s),
        CallToolAction,
        CallToolObservation,
        name=title,
        reset_observation_cls=MessageObservation,
    )


class ORSEnvironment(ToolCallingEnvironment):
    """One session after another of an Open Reward Standard server."""

    def __init__(self, base_url: str, environment: str, title: str, timeout_s: float) -> None:
        super().__init__(title, "")
        self._environment = environment
        self._http = async_http_client(base_url, base_url=base_url, timeout=timeout_s)
        self._session: str | None = None
        self._pinging: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def tools(self) -> list[Tool]:
        """The tools of the session, or before the first one those of every task."""
        path = "tools" if self._session is None else "task_tools"
        listed = await self._json("GET", path)
        tools = [
            Tool(name=tool["name"], description=tool["description"], input_schema=tool["input_schema"] or _NO_ARGUMENTS)
            for tool in listed["tools"]
        ]
        return [*tools, *_terminal_tools(listed.get("terminal_tool"))]

    async def begin(self, seed: int | None, keywords: Mapping[str, Any]) -> MessageObservation:
        """Begin task number `seed` of a split, counted on from the first task after the last.

        keywords: split, the first one with training tasks if it is missing; index, a task's number instead of the seed.
        """
        if keywords.keys() - {"split", "index"}:
            raise ValueError(f"{dict(keywords)}: a reset takes split, index and a seed")
        self._loop = asyncio.get_running_loop()
        await self._end_session()
        split = str(keywords.get("split") or await self._first_split())
        index = keywords.get("index")
        if index is None:
            count = (await self._json("POST", "num_tasks", {"split": split}))["num_tasks"]
            index = (seed or 0) % count
        self._session = await self._open_session()
        task = {"env_name": self._environment, "split": split, "index": int(index)}
        await self._json("POST", "/create", task)
        self._pinging = asyncio.ensure_future(self._ping())
        blocks = await self._json("GET", "prompt")
        return MessageObservation(message=_text(blocks), metadata={"split": split, "index": int(index)})

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Call a tool of the session."""
        answer = json.loads(await self._stream("call", {"name": name, "input": dict(arguments)}))
        if not answer["ok"]:
            kind = _ERROR_TYPES.get(str(answer.get("reason")), ToolErrorType.EXECUTION_ERROR)
            return ToolOutcome(error=answer["error"], error_type=kind)
        output = answer["output"]
        metadata = output.get("metadata") or {}
        return ToolOutcome(
            text=_text(output["blocks"]), reward=output.get("reward"), done=output["finished"], metadata=metadata
        )

    def close(self) -> None:
        """End the session, in the event loop that it was made in."""
        if self._loop is not None and self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._close(), self._loop)

    async def _close(self) -> None:
        await self._end_session()
        await self._http.aclose()

    async def _end_session(self) -> None:
        if self._pinging is not None:
            self._pinging.cancel()
            self._pinging = None
        if self._session is None:
            return
        for path in ("/delete", "/delete_session"):
            await self._json("POST", path)
        self._session = None

    async def _open_session(self) -> str:
        events = await self._events("/create_session", {})
        return next(data for event, data in events if event == "task_id")

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(_PING_S)
            await self._json("POST", "/ping")

    async def _first_split(self) -> str:
        splits = await self._json("GET", "splits")
        return str(next((one["name"] for one in splits if one["type"] == "train"), splits[0]["name"]))

    async def _stream(self, path: str, body: Mapping[str, Any]) -> str:
        """The result of a request that is answered as a stream of events. Raises RuntimeError for its error."""
        events = await self._events(path, body)
        for event, data in events:
            if event == "error":
                raise RuntimeError(data)
        return "".join(data for event, data in events if event in ("chunk", "end"))

    async def _events(self, path: str, body: Mapping[str, Any]) -> list[tuple[str, str]]:
        response = await self._http.post(self._path(path), json=dict(body), headers=self._headers())
        _check(response)
        return list(parse_events(response.text))

    async def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        response = await self._http.request(method, self._path(path), json=body, headers=self._headers())
        _check(response)
        return response.json()

    def _path(self, path: str) -> str:
        return path if path.startswith("/") else f"/{self._environment}/{path}"

    def _headers(self) -> dict[str, str]:
        return {} if self._session is None else {"X-Session-ID": self._session}


_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def _terminal_tools(described: Mapping[str, Any] | None) -> list[Tool]:
    """The tool that ends an episode, if there is one."""
    if not described:
        return []
    argument = described.get("arg")
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    description = str(described.get("description") or "End the episode with this answer")
    return [Tool(name=described["name"], description=description, input_schema=schema if argument else _NO_ARGUMENTS)]


def parse_events(text: str) -> list[tuple[str, str]]:
    """The events of a stream, each with its data."""
    events = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = [line.partition(":") for line in block.split("\n") if line and not line.startswith(":")]
        event = next((value.removeprefix(" ") for name, _, value in fields if name == "event"), "")
        data = "\n".join(value.removeprefix(" ") for name, _, value in fields if name == "data")
        if event:
            events.append((event, data))
    return events


def _text(blocks: Sequence[Mapping[str, Any]]) -> str:
    """Blocks as text; images are named."""
    return "\n".join(str(block["text"]) if block["type"] == "text" else f"[{block['type']}]" for block in blocks)


def _check(response: httpx.Response) -> None:
    """Raises RuntimeError with the server's reason for a refused request."""
    if response.is_error:
        raise RuntimeError(f"{response.request.url} returned {response.status_code}: {response.text[:300]}")
