"""MCP's Streamable HTTP transport at `POST /mcp` (https://modelcontextprotocol.io/specification, "Transports").

A client of MCP names event streams in its Accept header, as the specification asks it to. Other requests have the
published package's wire, which has no handshake and MCP's fields under names of its own.
"""

from typing import Any

import orjson
from fastapi import Request, Response

from openenv.core.env_server.http.sessions import HttpSessions
from openenv.core.env_server.mcp_types import JsonRpcErrorCode, JsonRpcResponse, McpMethod
from openenv.core.env_server.sessions.json_rpc import JsonRpc
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.sessions.worker_share import WrongWorker
from openenv.core.errors import RequestRefused, SessionFault
from openenv.core.wire.constants import NEW_SESSION, SESSION_HEADER
from openenv.core.wire.json_codec import write_json
from openenv.core.wire.server_codec import SessionRequest, error_json
from openenv.installation import bundle_version

SESSION_ID = "mcp-session-id"
_VERSION = "mcp-protocol-version"
_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Those that this server speaks, the newest first."""
_MOST_IN_BATCH = 100
_BY_MCP_NAME = {
    "meta": "_meta", "is_error": "isError", "structured_content": "structuredContent", "input_schema": "inputSchema",
}  # fmt: skip


class StreamableMcp:
    """Handles the requests of MCP's clients. Each has a session of its own from its `initialize` on, or the one that
    it names there. Its first call of a tool resets a session that has no episode."""

    def __init__(self, sessions: SessionManager, http_sessions: HttpSessions, rpc: JsonRpc) -> None:
        self._sessions = sessions
        self._http_sessions = http_sessions
        self._rpc = rpc

    async def respond(self, request: Request, body: bytes) -> Response | None:
        """The response to a request of MCP's transport; None for one of the published wire.

        Raises WrongWorker for a request of a session that another worker has.
        """
        is_mcp = SESSION_ID in request.headers or "text/event-stream" in request.headers.get("accept", "")
        try:
            message = orjson.loads(body)
        except orjson.JSONDecodeError:
            message = {}  # `JsonRpc` answers with what is wrong
        if is_mcp and isinstance(message, list):
            return await self._respond_all(request, message)
        return await self._respond_one(request, body, message, is_mcp=is_mcp)

    async def _respond_all(self, request: Request, batch: list[Any]) -> Response:
        """The responses to a batch, which clients of 2025-03-26 may send; none where no message has an answer."""
        if not batch:
            return _failure(None, "Invalid request: the batch is empty", 400)
        if len(batch) > _MOST_IN_BATCH:
            return _failure(None, f"Invalid request: {len(batch)} messages, a batch has at most {_MOST_IN_BATCH}", 400)
        bodies = []
        for message in batch:
            response = await self._respond_one(request, write_json(message), message, is_mcp=True)
            bodies += [bytes(response.body)] if response is not None and response.body else []
        if not bodies:
            return Response(status_code=202)
        return Response(b"[%b]" % b",".join(bodies), media_type="application/json")

    async def _respond_one(self, request: Request, body: bytes, parsed: Any, *, is_mcp: bool) -> Response | None:
        message = parsed if isinstance(parsed, dict) else {}
        method, request_id = message.get("method"), message.get("id")
        if method == "initialize":
            return await self._initialize(request, message.get("params"), request_id)
        refused = self._refusal(request, request_id) if is_mcp else None
        if refused is not None:
            return refused
        if _is_notification(message, is_mcp=is_mcp):
            return Response(status_code=202)
        if method == "ping":
            return _answer(request_id, {})
        if not is_mcp:
            return None
        return await self._forward(request, body, method)

    def _refusal(self, request: Request, request_id: Any) -> Response | None:
        """The response to a request of a version that is not known, or of a session that has ended; else None."""
        version = request.headers.get(_VERSION, _VERSIONS[0])
        if version not in _VERSIONS:
            return _failure(request_id, f"{_VERSION}: {version} is not one of {', '.join(_VERSIONS)}", 400)
        try:
            if SESSION_ID in request.headers:
                self._sessions.find(request.headers[SESSION_ID])
        except WrongWorker:
            raise
        except SessionFault as error:  # the client begins again with `initialize`
            return _failure(request_id, error.message, 404)
        return None

    async def end(self, request: Request) -> Response:
        """End the session of a client that is done, unless another program opened it.

        Raises WrongWorker like `respond`.
        """
        if SESSION_HEADER in request.headers:
            return Response(status_code=204)
        try:
            await self._http_sessions.end(request.headers.get(SESSION_ID, ""))
        except WrongWorker:
            raise
        except SessionFault as error:
            return _failure(None, error.message, 404)
        return Response(status_code=204)

    async def _initialize(self, request: Request, params: Any, request_id: Any) -> Response:
        wanted = params.get("protocolVersion") if isinstance(params, dict) else None
        try:
            named = request.headers.get(SESSION_HEADER)
            session = await self._http_sessions.for_reset(request, NEW_SESSION if named is None else named)
        except WrongWorker:
            raise
        except RequestRefused as error:
            return _failure(request_id, error.message, 503)
        result = {
            "protocolVersion": wanted if wanted in _VERSIONS else _VERSIONS[0],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "openenv", "version": bundle_version()},
        }
        return _answer(request_id, result, {SESSION_ID: session.id})

    async def _forward(self, request: Request, body: bytes, method: Any) -> Response:
        """A request about tools, in the session that its header names, or in its caller's own."""
        named = request.headers.get(SESSION_ID)

        async def session() -> Session:
            found = await self._http_sessions.for_verb(request, named)
            if method == McpMethod.TOOLS_CALL and named is not None and not found.has_begun:
                await found.respond(SessionRequest("reset", {}))  # MCP has no verb that begins an episode
            return found

        traceparent = request.headers.get("traceparent")
        answer = orjson.loads(await self._rpc.reply(body, default=session, traceparent=traceparent))
        if method == McpMethod.TOOLS_LIST and "result" in answer:
            answer["result"]["tools"] = [_of_mcp(tool) for tool in answer["result"]["tools"]]
        elif method == McpMethod.TOOLS_CALL:
            answer = _call_answer(answer)
        return Response(write_json(answer), media_type="application/json")


def _is_notification(message: dict[str, Any], *, is_mcp: bool) -> bool:
    """Whether a message has no answer: a notification, which has no id, or a client's response.

    Requests of the published wire may leave the id out.
    """
    method = message.get("method")
    if method is None:
        return "result" in message or "error" in message
    return "id" not in message and (is_mcp or str(method).startswith("notifications/"))


def _call_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer to a tool call. What the tool raised is a result, so that the model that called it sees it."""
    if answer.get("error", {}).get("code") == JsonRpcErrorCode.INTERNAL_ERROR:
        text = {"type": "text", "text": answer["error"]["message"]}
        return {"jsonrpc": "2.0", "id": answer["id"], "result": {"content": [text], "isError": True}}
    if "result" not in answer:
        return answer
    result = answer["result"]
    if not isinstance(result, dict) or "content" not in result:  # of an environment that handles the calls itself
        failure = result.get("error") if isinstance(result, dict) else None
        text = {"type": "text", "text": write_json(result).decode()}
        return {**answer, "result": {"content": [text], "isError": failure is not None}}
    result.pop("data", None)  # FastMCP's own, from the structured content
    content = [_content_of_mcp(part) for part in result["content"]]
    return {**answer, "result": {"isError": False, **_of_mcp(result), "content": content}}


def _content_of_mcp(part: dict[str, Any]) -> Any:
    nested = {name: _of_mcp(part[name]) for name in ("annotations", "resource") if name in part}
    return _of_mcp({**part, **nested})


def _of_mcp(fields: Any) -> Any:
    """An object with MCP's names, and without the fields that are not set."""
    if not isinstance(fields, dict):
        return fields
    return {_BY_MCP_NAME.get(name, name): value for name, value in fields.items() if value is not None}


def _answer(request_id: Any, result: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    body = write_json({"jsonrpc": "2.0", "id": request_id, "result": result})
    return Response(body, media_type="application/json", headers=headers)


def _failure(request_id: Any, message: str, status_code: int) -> Response:
    response = JsonRpcResponse.error_response(JsonRpcErrorCode.INVALID_REQUEST, message, None, request_id)
    return Response(error_json(response.model_dump()), status_code, media_type="application/json")
