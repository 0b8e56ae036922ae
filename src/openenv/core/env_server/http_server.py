"""Makes the application that serves an environment, and runs it."""

import dataclasses
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.app_source import AppSource, made_from
from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.declaration import Declaration, EnvironmentSource, declare
from openenv.core.env_server.exceptions import ConcurrencyConfigurationError
from openenv.core.env_server.exposure import warn_if_exposed
from openenv.core.env_server.types import (
    Action,
    ConcurrencyConfig,
    Observation,
    ServerCapacityStatus,
    ServerMode,
    SessionInfo,
    State,
)
from openenv.core.protocol import UNIX

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from openenv.core.env_server.sessions import Sessions


log = logging.getLogger(__name__)


def create_app(
    env: EnvironmentSource,
    action_cls: type[Action] | None = None,
    observation_cls: type[Observation] | None = None,
    env_name: str | None = None,
    max_concurrent_envs: int | None = None,
    concurrency_config: ConcurrencyConfig | None = None,
    gradio_builder: Callable[..., Any] | None = None,
    custom_tab_name: str = "Custom",
    custom_tab_primary: bool = False,
    show_default_tab: bool = True,
    title_override: str | None = None,
    state_cls: type[State] | None = None,
    *,
    mode: ServerMode | str | None = None,
    reset_observation_cls: type[Observation] | None = None,
    config: ServerConfig | None = None,
) -> "FastAPI":
    """The application that serves `env` over HTTP and WebSocket.

    env: an Environment class or a factory (one environment for each session), or one ready instance (one session at a
    time). Message classes that are not given are read from the environment's declaration; reset_observation_cls: where
    a reset returns another class than a step. `max_concurrent_envs`, `concurrency_config` and `mode` are the published
    package's words for `config`. The five parameters from `gradio_builder` to `title_override` shape the page that the
    published package makes where ENABLE_WEB_INTERFACE is set; this server makes none, and says so in its log.

    Raises TypeError when `env` is no environment, ValueError when `config` comes with one of the published words or
    says the same as another of them, ConcurrencyConfigurationError for more sessions than the environment allows.
    """
    # FastAPI takes half a second to import: whoever only needs the messages of an environment does not pay for it.
    from openenv.core.env_server.routes import environment_app

    if gradio_builder is not None:
        log.info("%s: this server makes no Gradio page; its routes are at /docs", env_name or env)
    limits = _limits(config, max_concurrent_envs, concurrency_config, mode)
    declaration = declare(env, action_cls, observation_cls, state_cls, env_name, reset_observation_cls)
    _refuse_too_many(declaration, limits, is_asked_for=bool(max_concurrent_envs or concurrency_config))
    return environment_app(dataclasses.replace(declaration, mode=limits.mode), limits)


def create_fastapi_app(
    env: EnvironmentSource,
    action_cls: type[Action] | None = None,
    observation_cls: type[Observation] | None = None,
    max_concurrent_envs: int | None = None,
    concurrency_config: ConcurrencyConfig | None = None,
    env_name: str | None = None,
    state_cls: type[State] | None = None,
    *,
    mode: ServerMode | str | None = None,
    reset_observation_cls: type[Observation] | None = None,
) -> "FastAPI":
    """`create_app` with the parameters in the order of the published function of this name."""
    return create_app(
        env,
        action_cls,
        observation_cls,
        env_name,
        max_concurrent_envs,
        concurrency_config,
        state_cls=state_cls,
        mode=mode,
        reset_observation_cls=reset_observation_cls,
    )


class HTTPEnvServer:
    """Serves an environment in an application of yours: `HTTPEnvServer(MyEnv, ...).register_routes(app)`."""

    def __init__(
        self,
        env: EnvironmentSource,
        action_cls: type[Action] | None = None,
        observation_cls: type[Observation] | None = None,
        max_concurrent_envs: int | None = None,
        concurrency_config: ConcurrencyConfig | None = None,
        env_name: str | None = None,
        state_cls: type[State] | None = None,
        *,
        reset_observation_cls: type[Observation] | None = None,
        config: ServerConfig | None = None,
    ) -> None:
        """The parameters of `create_app`, and what it raises."""
        self._config = _limits(config, max_concurrent_envs, concurrency_config, None)
        self._declaration = declare(env, action_cls, observation_cls, state_cls, env_name, reset_observation_cls)
        _refuse_too_many(self._declaration, self._config, is_asked_for=bool(max_concurrent_envs or concurrency_config))
        self._sessions: Sessions | None = None

    def register_routes(self, app: "FastAPI", mode: ServerMode | str = ServerMode.SIMULATION) -> None:
        """Add every route of an environment to `app`, and its sessions to the application's life."""
        from openenv.core.env_server.routes import add_environment

        config = dataclasses.replace(self._config, mode=ServerMode(mode))
        self._sessions = add_environment(app, dataclasses.replace(self._declaration, mode=config.mode), config)

    @property
    def active_sessions(self) -> int:
        """Sessions that are open."""
        return 0 if self._sessions is None else len(self._sessions)

    @property
    def max_concurrent_envs(self) -> int:
        """Sessions at one time."""
        return self._declaration.limited(self._config.max_sessions, self._config.execution)

    @property
    def is_concurrency_safe(self) -> bool:
        """Whether the environment allows more than one session."""
        return self._declaration.limited(2, self._config.execution) == 2

    @property
    def concurrency_config(self) -> ConcurrencyConfig:
        """The limits in the published package's words."""
        return ConcurrencyConfig(
            max_concurrent_envs=self.max_concurrent_envs, session_timeout=self._config.idle_timeout_s
        )

    def get_capacity_status(self) -> ServerCapacityStatus:
        """How full the server is."""
        return ServerCapacityStatus.from_counts(self.active_sessions, self.max_concurrent_envs)

    def get_session_info(self, session_id: str) -> SessionInfo | None:
        """What is known of a session, or None when there is none of that id."""
        session = self._sessions.get(session_id) if self._sessions is not None else None
        if session is None:
            return None
        now_s = time.time() - time.monotonic()
        return SessionInfo(
            session_id=session.id,
            created_at=now_s + session.created,
            last_activity_at=now_s + session.last_activity,
            step_count=session.num_steps,
            environment_type=self._declaration.environment_cls.__name__,
        )


def _refuse_too_many(declaration: Declaration, limits: ServerConfig, *, is_asked_for: bool) -> None:
    if is_asked_for and declaration.limited(limits.max_sessions, limits.execution) < limits.max_sessions:
        raise ConcurrencyConfigurationError(declaration.environment_cls.__name__, limits.max_sessions)


def _limits(
    config: ServerConfig | None,
    max_concurrent_envs: int | None,
    concurrency: ConcurrencyConfig | None,
    mode: ServerMode | str | None,
) -> ServerConfig:
    published: dict[str, Any] = {}
    if max_concurrent_envs is not None and concurrency is not None:
        raise ValueError("max_concurrent_envs and concurrency_config say the same thing: give one of them")
    if max_concurrent_envs is not None:
        published["max_sessions"] = max_concurrent_envs
    if concurrency is not None:
        published["max_sessions"] = concurrency.max_concurrent_envs
        if concurrency.session_timeout is not None:
            published["idle_timeout_s"] = concurrency.session_timeout
    if mode is not None:
        published["mode"] = ServerMode(mode)
    if config is not None and published:
        raise ValueError(f"config and {', '.join(published)} say the same thing: give config alone")
    return config or ServerConfig(**published)


def serve(
    app: AppSource, host: str = "127.0.0.1", port: int = 8000, *, log_level: str = "warning", workers: int = 1
) -> None:
    """Run `app` until it is interrupted or asked to stop; steps that run are finished first.

    app: an application, `MODULE:APP`, or a function that returns one. host: an address, or `unix:/run/echo.sock` for a
    Unix socket, which spares clients of this machine some of the way. workers: processes that share the sessions
    behind the port; more than 1 take `MODULE:APP` or a function of a module. SIGTERM is a wish like any other: in the
    main thread the program then exits with 0. Raises ValueError for workers that cannot be had, LookupError when
    `MODULE:APP` is not there, and, with several workers, OSError when it cannot listen.
    """
    if workers < 1:
        raise ValueError(f"workers={workers}: give 1, or as many as the machine has cores")
    if workers > 1:
        # belongs to a running server, as FastAPI and uvicorn do
        from openenv.core.env_server.processes.serving import serve_with_workers

        serve_with_workers(app, host, port, workers=workers, log_level=log_level)
        return
    if threading.current_thread() is threading.main_thread():
        # uvicorn hands the signal on, when it is done, to whoever had it before
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server(made_from(app), host, port, log_level=log_level).run()


def server(app: "FastAPI", host: str, port: int, *, log_level: str = "warning") -> "uvicorn.Server":
    """A server for `app`, not yet running. host: `unix:/run/echo.sock` for a Unix socket. Port 0 takes a free one."""
    # uvicorn belongs to a running server, as FastAPI does.
    from openenv.core.env_server.draining_server import DrainingServer

    warn_if_exposed(host, getattr(app.state, "config", ServerConfig()))
    where: dict[str, Any] = {"uds": host.removeprefix(UNIX)} if host.startswith(UNIX) else {"host": host, "port": port}
    return DrainingServer(app, log_level=log_level, **where)
