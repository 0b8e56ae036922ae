"""What a connection to `/ws` says and hears: frames in, the frames that answer them out, in either dialect."""

from collections.abc import Coroutine
from typing import Any

import orjson

from openenv.core.arrays import BinaryFrame, inlined, pack
from openenv.core.env_server.json_rpc import JsonRpc
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.types import ForkRequest, ResetRequest, RestoreRequest
from openenv.core.env_server.verbs import Answer
from openenv.core.env_server.wire import (
    Request,
    answer_frame,
    checked,
    error_frame,
    extended_answer_frame,
    extended_error_frame,
    read_request,
    read_usual_request,
    refuse_too_big,
)
from openenv.core.errors import InvalidJSON, RequestRefused
from openenv.core.protocol import ANSWER_TYPE

Reply = bytes | Coroutine[Any, Any, bytes]


class Conversation:
    """Requests and answers of one connection. Never raises what a client caused."""

    def __init__(
        self, sessions: Sessions, rpc: JsonRpc, session: Session, *, extended: bool, arrays: bool = False
    ) -> None:
        """extended: whether requests carry ids. arrays: whether binary frames are understood."""
        self._sessions = sessions
        self._rpc = rpc
        self._session = session
        self._extended = extended
        self._arrays = arrays
        self._max_bytes = sessions.config.max_message_bytes
        self._usual_bytes = self._max_bytes // 4 if extended else 0
        """Of a message that may be read in the short way."""

    def reply(self, frame: bytes | str) -> Reply | None:
        """The frame that answers `frame`, or None when it asks to close.

        What takes time is a coroutine of it, to be awaited before the next frame is read.
        """
        request: Request | None = None
        if type(frame) is bytes and len(frame) <= self._usual_bytes:
            request = read_usual_request(frame)
            if request is not None and request.type == "step":
                said = self._session.usual_step(request)
                if said is not None:
                    return said
        try:
            extended = self._extended
            if request is None:
                request = self._read(frame)
            kind, data, request_id, timeout_s, _ = request
            if kind not in ANSWER_TYPE:
                return None if kind == "close" else self._reply_later(request)
            if extended and data and kind == "reset":
                checked(ResetRequest, data)  # the published frames leave a negative seed to the environment
            options = {} if timeout_s is None else {"timeout_s": timeout_s}
            answer = self._session.ask_at_once(kind, data, options, request_id)  # type: ignore[arg-type]
            if answer is None:
                return self._reply_later(request)
            if extended and not answer.arrays:
                return extended_answer_frame(ANSWER_TYPE[kind], answer.data, request_id, truncated=answer.truncated)
            return self._answer(request, answer)
        except RequestRefused as error:
            return self._refusal(error, request)

    def _read(self, frame: bytes | str) -> Request:
        if isinstance(frame, BinaryFrame) and not self._arrays:
            raise InvalidJSON("Invalid JSON: a message is a text frame, this is a binary one")
        if 4 * len(frame) > self._max_bytes:  # no character takes more bytes than that
            refuse_too_big(frame, self._max_bytes)
        return read_request(frame, extended=self._extended)

    async def _reply_later(self, request: Request) -> bytes:
        try:
            if request.type == "mcp":
                answer = await self._session.once(_key(request), lambda: self._call_tools(request))
            elif request.type in ANSWER_TYPE:
                options = {} if request.timeout_s is None else {"timeout_s": request.timeout_s}
                answer = await self._session.ask(request.type, request.data, options, request.id, request.traceparent)  # type: ignore[arg-type]
            else:
                answer = await self._session.once(_key(request), lambda: self._branch(request))
        except RequestRefused as error:
            return self._refusal(error, request)
        return self._answer(request, answer)

    def _answer(self, request: Request, answer: Answer) -> bytes:
        kind = ANSWER_TYPE.get(request.type, request.type)
        data = answer.data
        if answer.arrays and not self._arrays:  # it was recorded for a connection that reads them
            data = inlined(data, answer.arrays)
        if not self._extended:
            return answer_frame(kind, data)
        frame = extended_answer_frame(kind, data, request.id, truncated=answer.truncated)
        return pack(frame, answer.arrays) if answer.arrays and self._arrays else frame

    def _refusal(self, error: RequestRefused, request: Request | None) -> bytes:
        error.__traceback__ = None  # it may be among the answers that are kept
        if not self._extended:
            return error_frame(error)
        return extended_error_frame(error, None if request is None else request.id)

    async def _call_tools(self, request: Request) -> Answer:
        return Answer(await self._rpc.reply(request.data, own=self._session, traceparent=request.traceparent))

    async def _branch(self, request: Request) -> Answer:
        return Answer(orjson.dumps(await self._branched(request)))

    async def _branched(self, request: Request) -> dict[str, Any]:
        """Snapshots: save, restore, fork."""
        if request.type == "save":
            return {"token": await self._sessions.save(self._session)}
        if request.type == "restore":
            await self._sessions.restore(self._session, checked(RestoreRequest, request.data).token)
            return {}
        count = checked(ForkRequest, request.data).count
        return {"session_ids": [branch.id for branch in await self._sessions.fork(self._session, count)]}


def _key(request: Request) -> str | None:
    return None if request.id is None else f"{request.type} {request.id}"
