"""`/mcp` over HTTP and over WebSocket: an agent lists and calls tools, and cannot reset an episode."""

import asyncio
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.types import Receive, Scope, Send

from openenv.core.env_server.http.route_class import add_websocket
from openenv.core.env_server.http.sessions import HttpSessions
from openenv.core.env_server.http.streamable_mcp import StreamableMcp
from openenv.core.env_server.mcp_types import JsonRpcErrorCode, JsonRpcResponse
from openenv.core.env_server.sessions.json_rpc import JsonRpc
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.websocket.endpoint import AsgiWebSocket
from openenv.core.env_server.websocket.message_handler import PendingReply
from openenv.core.errors import RequestRefused
from openenv.core.wire.server_codec import error_json


def add_mcp(app: FastAPI, sessions: SessionManager, http_sessions: HttpSessions) -> None:
    """Add both endpoints."""
    rpc = JsonRpc(sessions)
    streamable = StreamableMcp(sessions, http_sessions, rpc)

    @app.post("/mcp", tags=["mcp"], response_model=dict, openapi_extra=_BODY)
    async def mcp(request: Request) -> Response:
        """One JSON-RPC request: initialize, ping, tools/list, tools/call, openenv/session/create or /close.

        Clients of MCP are answered as its Streamable HTTP transport has it.
        """
        body = await request.body()
        answer = await streamable.respond(request, body)
        if answer is not None:
            return answer
        traceparent = request.headers.get("traceparent")
        response = await rpc.reply(body, default=lambda: http_sessions.for_verb(request, None), traceparent=traceparent)
        return Response(response, media_type="application/json")

    @app.delete("/mcp", include_in_schema=False)
    async def end_mcp(request: Request) -> Response:
        """End the session that `initialize` opened, which the header Mcp-Session-Id names."""
        return await streamable.end(request)

    add_websocket(app, "/mcp", _McpWebSocket(sessions, rpc), sessions.config)


_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["jsonrpc", "method"],
                    "properties": {
                        "jsonrpc": {"const": "2.0"},
                        "method": {"type": "string"},
                        "params": {"type": "object"},
                        "id": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
                    },
                }
            }
        },
    }
}


class _McpWebSocket:
    """An ASGI application that opens a session for each connection and handles JSON-RPC requests on it."""

    def __init__(self, sessions: SessionManager, rpc: JsonRpc) -> None:
        self._sessions = sessions
        self._rpc = rpc

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept the connection and handle requests until it ends; its session ends with it."""
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        try:
            session = await self._sessions.open()
        except RequestRefused as error:
            response = JsonRpcResponse.error_response(JsonRpcErrorCode.SERVER_ERROR, error.message, error.details)
            await send({"type": "websocket.send", "text": error_json(response.model_dump()).decode()})
            await send({"type": "websocket.close", "code": 1000})
            return
        connection = AsgiWebSocket(receive, send)
        self._sessions.attach(session, connection, take_over=False)

        def reply(frame: Any) -> PendingReply:
            return PendingReply(asyncio.ensure_future(self._rpc.reply(frame, own=session)), bytes)

        try:
            await connection.respond_with(reply)
        finally:
            await self._sessions.detach(session, connection, keep=False)
            await connection.close()
