"""The published WebSocket `/ws/ui`: a page that an author has written receives the episode after each verb."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from openenv.core.env_server.http.sessions import HttpSessions
from openenv.core.env_server.runner.env_runner import EncodedResponse
from openenv.core.env_server.sessions.session import Session
from openenv.core.errors import RequestRefused
from openenv.core.wire.arrays import inlined, read_frame
from openenv.core.wire.server_codec import error_frame
from openenv.web.published.interface_manager import ActionLog, EpisodeState
from openenv.web.relay import Watched, relay

_MOST_LOGS = 1000
"""Steps that an episode's messages repeat."""
_MOST_LOG_BYTES = 1 << 20
"""Size of these steps; the newest one is repeated whatever its size."""


class UiSocket:
    """An ASGI application. The session is that of `?session_id=`, else the caller's own at `/web/reset`."""

    def __init__(self, callers: HttpSessions) -> None:
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send `{"type": "state_update", "episode_state": ...}` until the session ends or the page leaves."""
        websocket = WebSocket(scope, receive, send)
        await websocket.accept()
        try:
            session = await self._callers.for_verb(websocket, websocket.query_params.get("session_id"))
        except RequestRefused as error:
            await websocket.send_text(error_frame(error).decode())
            await websocket.close()
            return
        episode = _Episode(session)
        if await relay(websocket, session, episode.message):
            await websocket.close()


class _Episode:
    """The episode of a session since a page watches it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._state = EpisodeState(step_count=session.num_steps, is_reset=False)
        self._logs: deque[bytes] = deque()
        """The JSON of each step that messages repeat."""
        self._log_bytes = 0

    def message(self, verbs: Sequence[Watched], num_dropped: int) -> bytes:
        """The episode after these verbs. num_dropped: steps that are counted and not listed."""
        self._state.step_count += num_dropped
        for watched in verbs:
            if isinstance(watched.outcome, EncodedResponse):
                self._add(watched, watched.outcome)
        state = {**self._state.model_dump(mode="json"), "action_logs": [orjson.Fragment(log) for log in self._logs]}
        return orjson.dumps({"type": "state_update", "episode_state": state})

    def _add(self, watched: Watched, response: EncodedResponse) -> None:
        body: dict[str, Any] = read_frame(inlined(response.data, response.arrays) if response.arrays else response.data)
        observation = body.get("observation")
        if not isinstance(observation, dict):
            return
        if watched.verb == "reset":
            self._state = EpisodeState(episode_id=watched.data.get("episode_id"), step_count=0)
            self._logs.clear()
            self._log_bytes = 0
        else:
            self._state.step_count += 1
            self._state.is_reset = False
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            log = ActionLog(
                timestamp=now, action=watched.data, observation=observation, reward=body.get("reward"),
                done=response.done, step_count=self._state.step_count,
            )  # fmt: skip
            self._add_log(orjson.dumps(log.model_dump(mode="json")))
        self._state.current_observation = observation

    def _add_log(self, log: bytes) -> None:
        self._logs.append(log)
        self._log_bytes += len(log)
        while len(self._logs) > _MOST_LOGS or (self._log_bytes > _MOST_LOG_BYTES and len(self._logs) > 1):
            self._log_bytes -= len(self._logs.popleft())
