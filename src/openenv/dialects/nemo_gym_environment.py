"""Environments of a resources server of NeMo Gym as environments of ours: `openenv serve nemo-gym:URL?data=FILE.jsonl`.

An episode is what its simple agent makes of a row of the dataset: the session is seeded with the row, each call of a
tool is a request, and a message without a call ends the episode. The server then verifies all of it.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

import httpx
import orjson

from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, Tool
from openenv.core.env_server.runner.env_spec import EnvSpec, resolve_env_spec
from openenv.core.errors import ServerUnreachable
from openenv.core.net.http_clients import async_http_client
from openenv.dialects.tool_environment import (
    REPLY,
    MessageObservation,
    ReplyAction,
    ReplyEnvironment,
    ToolCallingEnvironment,
    ToolOutcome,
    reply_tool,
    unknown_tool,
)
from openenv.formats.json_text import json_text

_PARAMETERS = "responses_create_params"
_MODEL = "openenv"

Row = Mapping[str, Any]


def nemo_gym_spec(url: str, *, data: str = "", max_steps: int | None = None, timeout_s: float = 300.0) -> EnvSpec:
    """The specification of the environment of a server.

    Args:
        url: of the resources server.
        data: the dataset, a file with a JSON object in each line, as its `responses_api_agents` name it.
        max_steps: calls and messages after which an episode is verified as it is; None: no limit.
        timeout_s: for each request.

    Raises:
        ValueError: for a URL of another form, and a file that is no dataset.
        LookupError: where there is no such file.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not data:
        raise ValueError(f"nemo-gym:{url}: write nemo-gym:http://HOST:PORT?data=FILE.jsonl")
    rows = read_rows(Path(data))
    title = Path(data).parent.parent.name.replace("-", "_").title().replace("_", "") or "NemoGym"

    def made() -> "_Episodes":
        return _Episodes(url.rstrip("/"), rows, max_steps, timeout_s)

    if any(row[_PARAMETERS].get("tools") for row in rows):
        return resolve_env_spec(
            lambda: NemoGymToolEnvironment(made(), title),
            CallToolAction,
            CallToolObservation,
            name=title,
            reset_observation_cls=MessageObservation,
        )
    return resolve_env_spec(lambda: NemoGymEnvironment(made(), title), ReplyAction, MessageObservation, name=title)


def read_rows(path: Path) -> Sequence[Row]:
    """The rows of a dataset. Raises LookupError where there is no such file, ValueError that names the wrong line."""
    if not path.is_file():
        raise LookupError(f"there is no file {path}, of which `data` has the dataset")
    rows = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
            row[_PARAMETERS]["input"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: no JSON object with {_PARAMETERS}.input: {error!r}") from error
        rows.append(row)
    if not rows:
        raise ValueError(f"{path} has no rows")
    return rows


class NemoGymEnvironment(ReplyEnvironment):
    """Tasks without tools: an episode is one message."""

    def __init__(self, episodes: "_Episodes", name: str) -> None:
        super().__init__(name, "")
        self._episodes = episodes

    async def begin(self, seed: int | None, keywords: Mapping[str, Any]) -> MessageObservation:
        """Begin with the row `seed` of the dataset, counted on from the first row after the last; index: a row."""
        return await self._episodes.begin(seed, keywords)

    async def reply(self, message: str) -> MessageObservation:
        """Send the message, which is verified."""
        outcome = await self._episodes.reply(message)
        return MessageObservation(
            message=outcome.text, reward=outcome.reward, done=outcome.done, metadata=dict(outcome.metadata)
        )

    def close(self) -> None:
        """Close the connections, in the event loop that they were made in."""
        self._episodes.close()


class NemoGymToolEnvironment(ToolCallingEnvironment):
    """Tasks with tools: those of the row, and `reply`."""

    def __init__(self, episodes: "_Episodes", name: str) -> None:
        super().__init__(name, "")
        self._episodes = episodes

    async def tools(self) -> list[Tool]:
        """The tools of the row, or before the first one those of all rows."""
        return [*self._episodes.tools(), reply_tool()]

    async def begin(self, seed: int | None, keywords: Mapping[str, Any]) -> MessageObservation:
        """Begin with the row `seed` of the dataset, counted on from the first row after the last; index: a row."""
        return await self._episodes.begin(seed, keywords)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Call a tool of the row, or end the episode with a message."""
        known = {tool.name for tool in self._episodes.tools()}
        if name == REPLY:
            return await self._episodes.reply(str(arguments.get("message", "")))
        if name not in known:
            return unknown_tool(name, {*known, REPLY})
        return await self._episodes.call(name, arguments)

    def close(self) -> None:
        """Close the connections, in the event loop that they were made in."""
        self._episodes.close()


class _Episodes:
    """One session after another of the server, each with its cookie."""

    def __init__(self, base_url: str, rows: Sequence[Row], max_steps: int | None, timeout_s: float) -> None:
        self._rows, self._max_steps = rows, max_steps
        self._http = async_http_client(base_url, base_url=base_url, timeout=timeout_s)
        self._row: Row | None = None
        self._items: list[dict[str, Any]] = []
        self._steps = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def tools(self) -> list[Tool]:
        """Those of the row, or of all rows before the first."""
        rows = self._rows if self._row is None else [self._row]
        found = {tool["name"]: tool for row in rows for tool in row[_PARAMETERS].get("tools") or ()}
        return [
            Tool(name=name, description=tool.get("description") or "", input_schema=tool.get("parameters") or _NONE)
            for name, tool in found.items()
        ]

    async def begin(self, seed: int | None, keywords: Mapping[str, Any]) -> MessageObservation:
        """Seed a session with a row. Raises ValueError for other keywords than index."""
        index = keywords.get("index", (seed or 0) % len(self._rows))
        if keywords.keys() - {"index"} or not isinstance(index, int) or not 0 <= index < len(self._rows):
            raise ValueError(f"{dict(keywords)}: a reset takes index, 0 to {len(self._rows) - 1}, and a seed")
        self._loop = asyncio.get_running_loop()
        self._http.cookies.clear()
        self._row, self._items, self._steps = self._rows[index], [], 0
        _require(await self._post("/seed_session", self._row))
        return MessageObservation(message=_prompt(self._row[_PARAMETERS]["input"]), metadata={"index": index})

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Call a tool. What the server answers is the result, an error too."""
        response = await self._post(f"/{quote(name, safe='')}", arguments)
        call = {"type": "function_call", "call_id": f"call_{len(self._items)}", "name": name}
        self._items += [
            {**call, "arguments": json_text(dict(arguments)), "status": "completed"},
            {"type": "function_call_output", "call_id": call["call_id"], "output": response.text},
        ]
        self._steps += 1
        if self._max_steps is not None and self._steps >= self._max_steps:
            return await self._verified(response.text)
        return ToolOutcome(text=response.text)

    async def reply(self, message: str) -> ToolOutcome:
        """End the episode with a message."""
        if self._row is None:
            raise ValueError("there is no episode yet: call reset first")
        content = [{"type": "output_text", "text": message, "annotations": []}]
        item = {"id": f"msg_{len(self._items)}", "type": "message", "role": "assistant", "status": "completed"}
        self._items.append({**item, "content": content})
        return await self._verified("")

    def close(self) -> None:
        """Close the connections, in the event loop that they were made in."""
        if self._loop is not None and self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._http.aclose(), self._loop)

    async def _verified(self, text: str) -> ToolOutcome:
        """The end of an episode: the reward, and the other numbers of the server's answer as metrics."""
        assert self._row is not None
        response = {
            "id": f"resp_{uuid4().hex}", "object": "response", "created_at": time.time(), "model": _MODEL,
            "output": self._items, "parallel_tool_calls": False, "tool_choice": "auto",
            "tools": self._row[_PARAMETERS].get("tools") or [],
        }  # fmt: skip
        answer = _require(await self._post("/verify", {**self._row, "response": response}))
        fields = answer.json()
        if fields.get("mask_sample") or (fields.get("instance_config") or {}).get("mask_sample"):
            raise RuntimeError("the server asks not to count this episode: mask_sample is true")
        metrics = {
            name: float(value)
            for name, value in fields.items()
            if name not in self._row and name != "reward" and isinstance(value, int | float)
        }
        return ToolOutcome(text=text, reward=float(fields["reward"]), done=True, metadata={"metrics": metrics})

    async def _post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        try:
            return await self._http.post(path, json=dict(body))
        except httpx.HTTPError as error:
            where = f"{self._http.base_url} does not answer {path} as a resources server of NeMo Gym"
            raise ServerUnreachable(f"{where}: {type(error).__name__}: {error}") from error


_NONE: dict[str, Any] = {"type": "object", "properties": {}}


def _require(response: httpx.Response) -> httpx.Response:
    """The response. Raises RuntimeError for a status of an error, with what the server has to say."""
    if response.is_error:
        raise RuntimeError(f"{response.request.url.path}: status {response.status_code}: {response.text[:500]}")
    return response


def _prompt(given: str | Sequence[Mapping[str, Any]]) -> str:
    """The text of the messages that a row begins with. Parts that are no text are named."""
    return given if isinstance(given, str) else "\n\n".join(_text(message.get("content") or "") for message in given)


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part["text"]) if "text" in part else f"[{part.get('type')}]" for part in content)
