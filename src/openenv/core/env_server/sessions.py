"""Sessions: one environment each, its episode, and where its code runs."""

import asyncio
import inspect
import logging
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import ValidationError

from openenv.core.env_server.declaration import Declaration
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, ResetRequest, State
from openenv.core.env_server.wire import invalid_message, refuse_unknown
from openenv.core.errors import CapacityReached, EnvironmentFault, EpisodeOver, FactoryFault, SessionFault

log = logging.getLogger(__name__)


class VerbSignatures:
    """Which keywords an environment's `reset` and `step` take, and which verbs it wrote asynchronously."""

    def __init__(self, cls: type[Environment]) -> None:
        self.reset_is_async = cls.reset_async is not Environment.reset_async
        self.step_is_async = cls.step_async is not Environment.step_async
        self.reset_keywords = _keywords(cls.reset_async if self.reset_is_async else cls.reset)
        self.step_keywords = _keywords(cls.step_async if self.step_is_async else cls.step)


def _keywords(function: Callable[..., Any]) -> set[str] | None:
    """Names of the keywords that `function` takes, or None when it takes any."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL}


class Session:
    """One environment and its episode. Verbs run one after another, in the order in which they were asked for."""

    def __init__(self, session_id: str, declaration: Declaration, signatures: VerbSignatures) -> None:
        self.id = session_id
        self.last_activity = time.monotonic()
        self.episode_is_over = False
        self._declaration = declaration
        self._signatures = signatures
        self._env: Environment | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Make the environment, where its code will run. Raises FactoryFault when that fails."""
        make = self._declaration.make
        try:
            is_inline = self._declaration.environment_cls.execution == "inline"
            self._env = make() if is_inline else await self._in_thread(make)
        except Exception as error:  # border: an author's constructor may raise anything
            log.exception("session %s: the environment could not be made", self.id)
            raise FactoryFault(f"{self._declaration.name} could not be made: {error}") from error

    async def reset(self, data: dict[str, Any]) -> Observation:
        """Start a new episode. `data` holds seed, episode_id and the environment's own keywords."""
        try:
            request = ResetRequest.model_validate(data)
        except ValidationError as error:
            raise invalid_message(error) from None
        keywords = self._accepted_reset_keywords(request)
        async with self._turn:
            observation = await self._run("reset", self._signatures.reset_is_async, **keywords)
            self.episode_is_over = observation.done
        return observation

    def _accepted_reset_keywords(self, request: ResetRequest) -> dict[str, Any]:
        """The keywords of a reset that the environment takes. Seed and episode_id are the protocol's: an environment
        that has no use for them does not see them."""
        takes = self._signatures.reset_keywords
        own = dict(request.model_extra or {})
        if takes is not None and own.keys() - takes:
            allowed = ", ".join(sorted(takes)) or "no keywords"
            raise refuse_unknown(own.keys() - takes, allowed, "reset")
        general = {"seed": request.seed, "episode_id": request.episode_id}
        return {**{key: value for key, value in general.items() if takes is None or key in takes}, **own}

    async def step(self, data: dict[str, Any], options: dict[str, Any] | None = None) -> Observation:
        """Take one action. `data` holds its fields; `options` further keywords of the environment's `step`."""
        action = self._action(data)
        if self.episode_is_over and not self._declaration.environment_cls.ALLOWS_STEP_AFTER_DONE:
            raise EpisodeOver("The episode is over: reset before the next step")
        takes = self._signatures.step_keywords
        keywords = {key: value for key, value in (options or {}).items() if takes is None or key in takes}
        async with self._turn:
            observation = await self._run("step", self._signatures.step_is_async, action, **keywords)
            self.episode_is_over = observation.done
        return observation

    def _action(self, data: dict[str, Any]) -> Action:
        try:
            return self._declaration.action_cls.model_validate(data)
        except ValidationError as error:
            raise invalid_message(error) from None

    async def state(self) -> State:
        """The environment's state."""
        async with self._turn:
            state: State = await self._guarded("state", lambda: self.env.state)
        return state

    async def close(self) -> None:
        """Close the environment and its thread. Errors of the environment's own `close` are logged."""
        async with self._turn:
            env, self._env = self._env, None
            try:
                if env is not None and not self._declaration.is_one_instance:
                    await (self._in_thread(env.close) if self._thread else _completed(env.close))
            except Exception:  # border: an author's close may raise anything, and the session ends all the same
                log.exception("session %s: close() of the environment failed", self.id)
            finally:
                if self._thread is not None:
                    self._thread.shutdown(wait=False)

    @property
    def env(self) -> Environment:
        """The environment. Raises SessionFault once the session has ended."""
        if self._env is None:
            raise SessionFault(f"Session {self.id} has ended: open a new one")
        return self._env

    async def _run(self, verb: str, is_async: bool, *args: Any, **keywords: Any) -> Observation:
        function = getattr(self.env, f"{verb}_async" if is_async else verb)
        observation = await self._guarded(verb, lambda: function(*args, **keywords), is_async=is_async)
        if not isinstance(observation, Observation):
            raise EnvironmentFault(f"{verb}() of {self._declaration.name} returned {type(observation).__name__}: "
                                   "it must return an Observation")  # fmt: skip
        return observation

    async def _guarded(self, verb: str, call: Callable[[], Any], *, is_async: bool = False) -> Any:
        """Run the author's code where it belongs; whatever it raises becomes an EnvironmentFault."""
        self.last_activity = time.monotonic()
        try:
            if is_async:
                return await call()
            return call() if self.env.execution == "inline" else await self._in_thread(call)
        except SessionFault:
            raise
        except Exception as error:  # border: an author's code may raise anything
            log.info("session %s: %s raised", self.id, verb, exc_info=True)
            raise EnvironmentFault(str(error) or type(error).__name__) from error

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"session-{self.id[:8]}")
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


async def _completed(call: Callable[[], Any]) -> Any:
    return call()


class Sessions:
    """The sessions of one server: opened up to a limit, found by id, ended when idle."""

    def __init__(self, declaration: Declaration, max_sessions: int, idle_timeout_s: float) -> None:
        self.max_sessions = min(max_sessions, declaration.max_sessions or max_sessions)
        self._idle_timeout_s = idle_timeout_s
        self._declaration = declaration
        self._signatures = VerbSignatures(declaration.environment_cls)
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    async def open(self) -> Session:
        """A new session with an environment of its own. Raises CapacityReached or FactoryFault."""
        if len(self) >= self.max_sessions:
            raise CapacityReached(
                f"Server at capacity: {len(self)}/{self.max_sessions} sessions active. Cannot accept new connections.",
                active_sessions=len(self),
                max_sessions=self.max_sessions,
            )
        session = Session(str(uuid.uuid4()), self._declaration, self._signatures)
        self._sessions[session.id] = session
        try:
            await session.open()
        except FactoryFault:
            del self._sessions[session.id]
            raise
        return session

    def find(self, session_id: str) -> Session:
        """The session of that id. Raises SessionFault when there is none (any more)."""
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionFault(f"Unknown session_id: {session_id}. It never existed or has ended: reset without an id")
        return session

    async def end(self, session: Session) -> None:
        """Close a session and forget it; ending it twice does nothing."""
        if self._sessions.pop(session.id, None) is not None:
            await session.close()

    async def end_all(self) -> None:
        """Close every session, as the server does when it stops."""
        for session in list(self._sessions.values()):
            await self.end(session)

    async def end_idle(self) -> None:
        """Run for as long as the server does: end sessions that nobody has asked for anything in a long time."""
        while True:
            await asyncio.sleep(min(self._idle_timeout_s / 4, 30.0))
            oldest = time.monotonic() - self._idle_timeout_s
            for session in [s for s in self._sessions.values() if s.last_activity < oldest]:
                log.info("session %s: ended after %.0f s without a request", session.id, self._idle_timeout_s)
                await self.end(session)
