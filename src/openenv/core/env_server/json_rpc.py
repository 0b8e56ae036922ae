"""JSON-RPC over `/mcp` and in `mcp` frames: tools are listed and called, sessions opened and closed."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from pydantic import ValidationError

from openenv.core.env_server.commons import SessionElsewhere
from openenv.core.env_server.mcp_types import JsonRpcErrorCode, JsonRpcRequest, JsonRpcResponse, McpMethod, RequestId
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.wire import error_json, refuse_too_big
from openenv.core.errors import EnvironmentFault, NotSupported, OpenEnvError, RequestRefused, SessionFault

CREATE_SESSION = "openenv/session/create"
CLOSE_SESSION = "openenv/session/close"

FindsSession = Callable[[], Awaitable[Session]]


class _Failed(OpenEnvError):
    """A request came to nothing, for a reason that JSON-RPC has a code for."""

    def __init__(self, code: JsonRpcErrorCode, message: str | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class JsonRpc:
    """Answers the requests of one server. A request never fails otherwise than by an error in its answer."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def reply(
        self,
        body: str | bytes | dict[str, Any],
        *,
        own: Session | None = None,
        default: FindsSession | None = None,
        traceparent: str | None = None,
    ) -> bytes:
        """The answer to a request. own: the session of the connection that it came on; default: where there is none,
        finds or opens the session for a request that names none. traceparent: the client's span. Raises
        SessionElsewhere for a request that came on no connection of a session."""
        request_id: RequestId = None
        try:
            if not isinstance(body, dict):  # else it came in a frame whose size was looked at
                refuse_too_big(body, self._sessions.config.max_message_bytes)
            request = _read(body, says_why=own is not None)
            request_id = request.id
            result = await self._result(request, own, default, traceparent)
        except _Failed as error:
            return _error(error, request_id)
        except RequestRefused as error:
            if isinstance(error, SessionElsewhere) and own is None:
                raise  # plain HTTP, which is handed on
            return _error(_failure(error), request_id)
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (error_json(request_id), result)

    async def _result(
        self, request: JsonRpcRequest, own: Session | None, default: FindsSession | None, traceparent: str | None
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
            raise _Failed(JsonRpcErrorCode.METHOD_NOT_FOUND, f"Method not found: {request.method}")
        session = await self._session(params.get("session_id"), own, default)
        return (await session.ask("mcp", data, traceparent=traceparent)).data

    async def _session(self, named: Any, own: Session | None, default: FindsSession | None) -> Session:
        if own is not None:
            return own
        if named is None and default is not None:
            return await default()
        return self._sessions.find(str(named))

    async def _close(self, session_id: Any, own: Session | None) -> dict[str, Any]:
        if not session_id:
            raise _Failed(JsonRpcErrorCode.INVALID_PARAMS, "Invalid params - 'session_id' is required")
        if own is not None and own.id == session_id:
            raise _Failed(
                JsonRpcErrorCode.INVALID_REQUEST, "Cannot close active WebSocket-managed session via MCP method"
            )
        has_ended = await self._sessions.end_when_detached(self._sessions.find(str(session_id)))
        return {"session_id": session_id, "closed": True} if has_ended else {
            "session_id": session_id, "closed": False, "closing": True,
        }  # fmt: skip


def _read(body: str | bytes | dict[str, Any], *, says_why: bool) -> JsonRpcRequest:
    """says_why: a WebSocket is told why its text is no request, plain HTTP is not, as in the published dialect."""
    try:
        message = body if isinstance(body, dict) else json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _Failed(JsonRpcErrorCode.PARSE_ERROR, f"Parse error: {error}" if says_why else None) from None
    if not isinstance(message, dict):
        reason = f"Parse error: a request is an object, this is {type(message).__name__}"
        raise _Failed(JsonRpcErrorCode.PARSE_ERROR, reason if says_why else None)
    try:
        return JsonRpcRequest.model_validate(message)
    except ValidationError as error:
        raise _Failed(JsonRpcErrorCode.INVALID_REQUEST, f"Invalid request: {error}") from None


def _call_of(params: dict[str, Any]) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments", {})
    if not isinstance(name, str) or not name:
        raise _Failed(JsonRpcErrorCode.INVALID_PARAMS, "Missing 'name' in params")
    if not isinstance(arguments, dict):
        raise _Failed(JsonRpcErrorCode.INVALID_PARAMS, "'arguments' in params must be an object")
    return {"name": name, "arguments": arguments}


def _failure(error: RequestRefused) -> _Failed:
    """A refusal in JSON-RPC's words; what it has no code for carries the wire's own."""
    if isinstance(error, SessionFault):
        return _Failed(JsonRpcErrorCode.INVALID_PARAMS, error.message)
    if isinstance(error, EnvironmentFault | NotSupported):
        return _Failed(JsonRpcErrorCode.INTERNAL_ERROR, error.message)
    return _Failed(JsonRpcErrorCode.SERVER_ERROR, error.message, {"code": error.code, **error.details})


def _error(error: _Failed, request_id: RequestId) -> bytes:
    response = JsonRpcResponse.error_response(error.code, error.message, error.data, request_id)
    return error_json(response.model_dump())
