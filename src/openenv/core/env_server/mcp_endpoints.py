"""`/mcp` over HTTP and over WebSocket: tools for an agent, which has no way to reset an episode here."""

from fastapi import FastAPI, Request, Response
from starlette.routing import WebSocketRoute

from openenv.core.env_server.asgi import Receive, Scope, Send
from openenv.core.env_server.http_sessions import HttpSessions
from openenv.core.env_server.json_rpc import JsonRpc
from openenv.core.env_server.mcp_types import JsonRpcErrorCode, JsonRpcResponse
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.wire import error_json
from openenv.core.errors import RequestRefused


def add_mcp(app: FastAPI, sessions: Sessions, http_sessions: HttpSessions) -> None:
    """Add both endpoints."""
    rpc = JsonRpc(sessions)

    @app.post("/mcp", tags=["mcp"], response_model=dict, openapi_extra=_BODY)
    async def mcp(request: Request) -> Response:
        """One JSON-RPC request: tools/list, tools/call, openenv/session/create, openenv/session/close."""
        body = await request.body()
        traceparent = request.headers.get("traceparent")
        answer = await rpc.reply(body, default=lambda: http_sessions.for_verb(request, None), traceparent=traceparent)
        return Response(answer, media_type="application/json")

    app.router.routes.append(WebSocketRoute("/mcp", _McpWebSocket(sessions, rpc)))


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
    """An ASGI application: a connection has a session of its own and asks it about its tools."""

    def __init__(self, sessions: Sessions, rpc: JsonRpc) -> None:
        self._sessions = sessions
        self._rpc = rpc

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept the connection and answer until it ends; its session ends with it."""
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        try:
            session = await self._sessions.open()
        except RequestRefused as error:
            said = JsonRpcResponse.error_response(JsonRpcErrorCode.SERVER_ERROR, error.message, error.details)
            await send({"type": "websocket.send", "text": error_json(said.model_dump()).decode()})
            await send({"type": "websocket.close", "code": 1000})
            return
        self._sessions.attach(session, self, take_over=False)
        try:
            await self._answer(session, receive, send)
        finally:
            await self._sessions.end(session)

    async def _answer(self, session: Session, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "websocket.receive":
            frame = message.get("text")
            answer = await self._rpc.reply(message.get("bytes", b"") if frame is None else frame, own=session)
            try:
                await send({"type": "websocket.send", "text": answer.decode()})
            except RuntimeError:  # ASGI's word for a connection that the server closed by itself: text is no UTF-8
                return
