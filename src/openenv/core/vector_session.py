"""A client's session of many environments: a request is sent, and its answer received later."""

import select
import time
from collections.abc import Sequence
from typing import Any

from openenv.core.arrays import packed
from openenv.core.blocking_session import BlockingSession
from openenv.core.connection import Address
from openenv.core.errors import AnswerTimeout, NotSupported, SessionLost


class VectorSession(BlockingSession):
    """One request at a time is under way. What is lost on the way is sent again under its old id."""

    def __init__(self, address: Address, num_envs: int) -> None:
        """Open it. Raises ServerUnreachable, and NotSupported when the server knows no such sessions."""
        super().__init__(address)
        if "vector" not in self.about:
            self.close()
            raise NotSupported(f"{address.base_url} holds one environment in a session: open a session for each")
        self.num_envs = num_envs
        self._under_way: tuple[str, bytes, str, bool] | None = None

    def send(self, kind: str, data: dict[str, Any], timeout_s: float | None = None) -> None:
        """Send a request. Raises RuntimeError while the last one is under way. timeout_s: the most that it may take."""
        if self._under_way is not None:
            raise RuntimeError("the answer to the last request has not been received yet")
        request_id = next(self._ids)
        limit = {} if timeout_s is None else {"timeout_s": timeout_s}
        frame = packed({"type": kind, "id": request_id, **limit, "data": data})
        try:
            self._connection.send(frame)
            is_sent = True
        except SessionLost:
            is_sent = False
        self._under_way = (request_id, frame, kind, is_sent)

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """The answer's data. Raises AnswerTimeout, after which it may be received later, SessionLost, or what an error
        answer stands for."""
        if self._under_way is None:
            raise RuntimeError("nothing was asked")
        request_id, frame, kind, is_sent = self._under_way
        try:
            with self._lock:
                data = self._answer_to(request_id, frame, kind, time.monotonic() + timeout_s, is_sent=is_sent)
        except AnswerTimeout:
            raise
        except BaseException as error:
            self._under_way = None
            self.is_lost = isinstance(error, SessionLost)
            raise
        self._under_way = None
        return data

    def fileno(self) -> int:
        """The socket's, to wait on."""
        return self._connection.fileno()

    @property
    def has_answer(self) -> bool:
        """Whether something has come that was not read yet."""
        return self._connection.has_message


def ready(sessions: Sequence[VectorSession], timeout_s: float) -> list[VectorSession]:
    """Those of the sessions that have something to receive; waits for the first. Raises AnswerTimeout."""
    waiting = [session for session in sessions if session.has_answer]
    if waiting:
        return waiting
    poll = select.poll()
    by_fd = {session.fileno(): session for session in sessions}
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    found = poll.poll(1000 * timeout_s)
    if not found:
        raise AnswerTimeout(f"no answer of {len(sessions)} sessions in {timeout_s:g} s; their answers will be kept")
    return [by_fd[fd] for fd, _ in found]
