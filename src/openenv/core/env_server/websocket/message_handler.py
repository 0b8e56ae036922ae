"""Handles the messages of one connection to `/ws`: a frame in, the frame of its response out, in either dialect."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import orjson

from openenv.core.env_server.runner.env_runner import EncodedResponse
from openenv.core.env_server.sessions.json_rpc import JsonRpc
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.response_cache import Result
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.types import ForkRequest, ResetRequest, RestoreRequest
from openenv.core.errors import InvalidJSON, RequestRefused
from openenv.core.wire.arrays import BinaryFrame, inlined, pack
from openenv.core.wire.constants import RESPONSE_TYPE
from openenv.core.wire.server_codec import (
    SessionRequest,
    checked,
    error_frame,
    extended_error_frame,
    extended_response_frame,
    read_request,
    refuse_too_big,
    response_frame,
)


class PendingReply(NamedTuple):
    """The reply to a request that is in progress. The next frame is to be handled after it."""

    result: "asyncio.Future[Any]"
    encode: Callable[[Any], bytes]
    """The frame of that result."""


class MessageHandler:
    """Requests and responses of one connection. Errors that a client causes become error frames."""

    def __init__(
        self, sessions: SessionManager, rpc: JsonRpc, session: Session, *, extended: bool, arrays: bool = False
    ) -> None:
        """extended: whether requests carry ids. arrays: whether the client sends and reads binary frames."""
        self._sessions = sessions
        self._rpc = rpc
        self._session = session
        self._extended = extended
        self._arrays = arrays
        self._max_bytes = sessions.config.max_message_bytes
        self._response_frame = extended_response_frame if extended else response_frame

    def handle(self, frame: bytes | str) -> bytes | PendingReply | None:
        """The frame of the response, or None when the client asks to close."""
        request: SessionRequest | None = None
        try:
            if not self._arrays and isinstance(frame, BinaryFrame):
                raise InvalidJSON("Invalid JSON: a message is a text frame, this is a binary one")
            refuse_too_big(frame, self._max_bytes)
            request = read_request(frame, extended=self._extended)
            verb = request.verb
            if verb in RESPONSE_TYPE:
                if verb == "reset" and self._extended and request.data:
                    checked(ResetRequest, request.data)  # the published dialect leaves a negative seed to environments
                result = self._session.request(request)
            elif verb == "close":
                return None
            elif verb == "mcp":
                result = self._session.run_once(verb, request.id, partial(self._call_tools, request), request.body)
            else:
                result = self._session.run_once(
                    verb, request.id, partial(self._run_snapshot_verb, request), request.body
                )
        except RequestRefused as error:
            return self._error_frame(error, request)
        if isinstance(result, EncodedResponse) and not result.arrays:
            return self._response_frame(
                RESPONSE_TYPE.get(verb, verb), result.data, request.id, truncated=result.truncated
            )
        if isinstance(result, asyncio.Future):
            return PendingReply(result, partial(self._frame_of, request))
        return self._frame_of(request, result)

    def _frame_of(self, request: SessionRequest, result: Result) -> bytes:
        if isinstance(result, RequestRefused):
            return self._error_frame(result, request)
        kind, data, arrays = RESPONSE_TYPE.get(request.verb, request.verb), result.data, result.arrays
        if arrays and not self._arrays:  # the response was kept for another connection, which reads arrays
            data, arrays = inlined(data, arrays), ()
        frame = self._response_frame(kind, data, request.id, truncated=result.truncated)
        return pack(frame, arrays) if arrays else frame

    def _error_frame(self, error: RequestRefused, request: SessionRequest | None) -> bytes:
        if not self._extended:
            return error_frame(error)
        return extended_error_frame(error, None if request is None else request.id)

    async def _call_tools(self, request: SessionRequest) -> EncodedResponse:
        return EncodedResponse(await self._rpc.reply(request.data, own=self._session, traceparent=request.traceparent))

    async def _run_snapshot_verb(self, request: SessionRequest) -> EncodedResponse:
        """Save, restore or fork."""
        sessions, session = self._sessions, self._session
        data: dict[str, Any] = {}
        if request.verb == "save":
            data = {"token": await sessions.save(session)}
        elif request.verb == "restore":
            await sessions.restore(session, checked(RestoreRequest, request.data).token)
        else:
            count = checked(ForkRequest, request.data).count
            data = {"session_ids": [branch.id for branch in await sessions.fork(session, count)]}
        return EncodedResponse(orjson.dumps(data))
