"""JSON-RPC at `/mcp` and in `mcp` frames: lists and calls tools, opens and closes sessions."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from pydantic import ValidationError

from openenv.core.env_server.mcp_types import JsonRpcErrorCode, JsonRpcRequest, JsonRpcResponse, McpMethod, RequestId
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.sessions.worker_share import WrongWorker
from openenv.core.errors import EnvironmentFault, NotSupported, OpenEnvError, RequestRefused, SessionFault
from openenv.core.wire.server_codec import SessionRequest, error_json, refuse_too_big

CREATE_SESSION = "openenv/session/create"
CLOSE_SESSION = "openenv/session/close"

FindSession = Callable[[], Awaitable[Session]]


class _JsonRpcError(OpenEnvError):
    """A request failed for a reason that JSON-RPC has a code for."""

    def __init__(self, code: JsonRpcErrorCode, message: str | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class JsonRpc:
    """Handles the requests of one server. A failed request is a response with an error, not an exception."""

    def __init__(self, sessions: SessionManager) -> None:
        self._sessions = sessions

    async def reply(
        self,
        body: str | bytes | dict[str, Any],
        *,
        own: Session | None = None,
        default: FindSession | None = None,
        traceparent: str | None = None,
    ) -> bytes:
        """The response to a request.

        Args:
            own: the session of the WebSocket that the request came on.
            default: without one, finds or opens the session of a request that names none.
            traceparent: the client's span.

        Raises:
            WrongWorker: for a request over plain HTTP whose session another worker has.
        """
        request_id: RequestId = None
        try:
            if not isinstance(body, dict):  # the size of a frame is checked before it is parsed
                refuse_too_big(body, self._sessions.config.max_message_bytes)
            request = _parse(body, explains=own is not None)
            request_id = request.id
            result = await self._result(request, own, default, traceparent)
        except _JsonRpcError as error:
            return _error(error, request_id)
        except RequestRefused as error:
            if isinstance(error, WrongWorker) and own is None:
                raise  # plain HTTP, which is forwarded
            return _error(_json_rpc_error(error), request_id)
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (error_json(request_id), result)

    async def _result(
        self, request: JsonRpcRequest, own: Session | None, default: FindSession | None, traceparent: str | None
    ) -> bytes:
        params = request.params
        if request.method == CREATE_SESSION:
            session = own or await self._sessions.open(outlives_connection=True)
            return orjson.dumps({"session_id": session.id})
        if request.method == CLOSE_SESSION:
            return orjson.dumps(await self._close(params.get("session_id"), own))
        data: dict[str, Any] = {"method": request.method}
        if request.method == McpMethod.TOOLS_CALL:
            data |= _call_of(params)
        elif request.method != McpMethod.TOOLS_LIST:
            raise _JsonRpcError(JsonRpcErrorCode.METHOD_NOT_FOUND, f"Method not found: {request.method}")
        session = await self._session(params.get("session_id"), own, default)
        return (await session.respond(SessionRequest("mcp", data, traceparent=traceparent))).data

    async def _session(self, named: Any, own: Session | None, default: FindSession | None) -> Session:
        if own is not None:
            return own
        if named is None and default is not None:
            return await default()
        return self._sessions.find(str(named))

    async def _close(self, session_id: Any, own: Session | None) -> dict[str, Any]:
        if not session_id:
            raise _JsonRpcError(JsonRpcErrorCode.INVALID_PARAMS, "Invalid params - 'session_id' is required")
        if own is not None and own.id == session_id:
            raise _JsonRpcError(
                JsonRpcErrorCode.INVALID_REQUEST, "Cannot close active WebSocket-managed session via MCP method"
            )
        has_ended = await self._sessions.end_when_detached(self._sessions.find(str(session_id)))
        return {"session_id": session_id, "closed": True} if has_ended else {
            "session_id": session_id, "closed": False, "closing": True,
        }  # fmt: skip


def _parse(body: str | bytes | dict[str, Any], *, explains: bool) -> JsonRpcRequest:
    """explains: whether an error has the reason, as the published server's has over a WebSocket but not over HTTP."""
    try:
        message = body if isinstance(body, dict) else json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _JsonRpcError(JsonRpcErrorCode.PARSE_ERROR, f"Parse error: {error}" if explains else None) from None
    if not isinstance(message, dict):
        reason = f"Parse error: a request is an object, this is {type(message).__name__}"
        raise _JsonRpcError(JsonRpcErrorCode.PARSE_ERROR, reason if explains else None)
    try:
        return JsonRpcRequest.model_validate(message)
    except ValidationError as error:
        raise _JsonRpcError(JsonRpcErrorCode.INVALID_REQUEST, f"Invalid request: {error}") from None


def _call_of(params: dict[str, Any]) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments", {})
    if not isinstance(name, str) or not name:
        raise _JsonRpcError(JsonRpcErrorCode.INVALID_PARAMS, "Missing 'name' in params")
    if not isinstance(arguments, dict):
        raise _JsonRpcError(JsonRpcErrorCode.INVALID_PARAMS, "'arguments' in params must be an object")
    return {"name": name, "arguments": arguments}


def _json_rpc_error(error: RequestRefused) -> _JsonRpcError:
    """The JSON-RPC error of a refusal; where JSON-RPC has no code for it, its data hold the wire's own."""
    if isinstance(error, SessionFault):
        return _JsonRpcError(JsonRpcErrorCode.INVALID_PARAMS, error.message)
    if isinstance(error, EnvironmentFault | NotSupported):
        return _JsonRpcError(JsonRpcErrorCode.INTERNAL_ERROR, error.message)
    return _JsonRpcError(JsonRpcErrorCode.SERVER_ERROR, error.message, {"code": error.code, **error.details})


def _error(error: _JsonRpcError, request_id: RequestId) -> bytes:
    response = JsonRpcResponse.error_response(error.code, error.message, error.data, request_id)
    return error_json(response.model_dump())
