"""Creates the application that serves an environment, and runs it."""

import asyncio
import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.config import ServerConfig

# Names that programs for the published package import from this module.
from openenv.core.env_server.exceptions import (  # noqa: F401
    ConcurrencyConfigurationError,
    EnvironmentFactoryError,
    SessionCapacityError,
)
from openenv.core.env_server.execution.program_exit import children_end_at_exit, exit_on_sigterm
from openenv.core.env_server.interfaces import (  # noqa: F401
    Environment,
)
from openenv.core.env_server.mcp_environment import (  # noqa: F401
    get_server_tools,
)
from openenv.core.env_server.mcp_types import (  # noqa: F401
    CallToolAction,
    CallToolObservation,
    JsonRpcErrorCode,
    JsonRpcRequest,
    JsonRpcResponse,
    ListToolsAction,
    ListToolsObservation,
    McpMethod,
    WSMCPMessage,
    WSMCPResponse,
)
from openenv.core.env_server.route_config import (  # noqa: F401
    GetEndpointConfig,
    register_get_endpoints,
)
from openenv.core.env_server.runner.env_spec import EnvironmentSource, EnvSpec, resolve_env_spec
from openenv.core.env_server.serialization import (  # noqa: F401
    deserialize_action,
    serialize_observation,
)
from openenv.core.env_server.serving.listeners import announce_app, open_listeners
from openenv.core.env_server.types import (  # noqa: F401
    Action,
    ConcurrencyConfig,
    EnvironmentMetadata,
    GetTaskRangeRequest,
    GetTaskRequest,
    HealthResponse,
    HealthStatus,
    ListTasksRequest,
    NumTasksRequest,
    Observation,
    ResetRequest,
    ResetResponse,
    SchemaResponse,
    ServerCapacityStatus,
    ServerMode,
    SessionInfo,
    State,
    StepRequest,
    StepResponse,
    WSCloseMessage,
    WSErrorCode,
    WSErrorResponse,
    WSObservationResponse,
    WSResetMessage,
    WSStateMessage,
    WSStateResponse,
    WSStepMessage,
)
from openenv.core.wire.constants import INHERITED, UNIX

if TYPE_CHECKING:
    from fastapi import FastAPI

    from openenv.core.env_server.serving.app_loader import AppSource
    from openenv.core.env_server.serving.graceful_server import GracefulServer
    from openenv.core.env_server.sessions.manager import SessionManager


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

    env: an Environment class or a factory makes one environment for each session; one ready instance serves one
    session at a time. A factory is called when a session opens, not before. Message classes default to those that the
    environment declares. reset_observation_cls: the class of a reset's observation, where it differs from a step's.
    `max_concurrent_envs`, `concurrency_config` and `mode` are the published package's parameters for fields of
    `config`. The application has the page at `/web`, to which `/` leads, unless the environment variable
    ENABLE_WEB_INTERFACE is false. If it is true, `gradio_builder` adds its page at `/web/custom`, where Gradio is
    installed, and the four parameters after it name that.

    Raises TypeError when `env` is no environment, and for a factory with unknown message classes. Raises ValueError
    when `config` comes with one of the published parameters, or two of those set one field. Raises
    ConcurrencyConfigurationError for more sessions than the environment allows.
    """
    # FastAPI takes half a second to import, which a program that needs only an environment's messages is spared
    from openenv.web.application import app_of
    from openenv.web.gradio_tab import GradioTab

    spec, limits = resolve_served(
        env, action_cls, observation_cls, max_concurrent_envs, concurrency_config, env_name, state_cls, mode,
        reset_observation_cls, config,
    )  # fmt: skip
    is_primary = custom_tab_primary or not show_default_tab
    return app_of(spec, limits, GradioTab.of(gradio_builder, custom_tab_name, is_primary, title_override))


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
    config: ServerConfig | None = None,
) -> "FastAPI":
    """`create_app` without the page, and with its parameters in the order of the published function of this name."""
    from openenv.core.env_server.http.routes import environment_app

    return environment_app(
        *resolve_served(
            env, action_cls, observation_cls, max_concurrent_envs, concurrency_config, env_name, state_cls, mode,
            reset_observation_cls, config,
        )
    )  # fmt: skip


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
        """Parameters and exceptions are those of `create_app`."""
        self._config = _limits(config, max_concurrent_envs, concurrency_config, None)
        self._spec = resolve_env_spec(env, action_cls, observation_cls, state_cls, env_name, reset_observation_cls)
        _refuse_too_many(self._spec, self._config, is_requested=bool(max_concurrent_envs or concurrency_config))
        self._sessions: SessionManager | None = None

    def register_routes(self, app: "FastAPI", mode: ServerMode | str = ServerMode.SIMULATION) -> None:
        """Add every route of the environment to `app`, and its sessions to the application's lifespan.

        The token, the checks of web pages and the error responses of the configuration are those of these routes alone.
        Raises ValueError for an application that serves an environment already.
        """
        from openenv.core.env_server.http.routes import add_environment

        config = dataclasses.replace(self._config, mode=ServerMode(mode.lower()))
        self._sessions = add_environment(app, self._spec, config)

    @property
    def active_sessions(self) -> int:
        """Sessions that are open."""
        return 0 if self._sessions is None else len(self._sessions)

    @property
    def max_concurrent_envs(self) -> int:
        """Sessions at one time."""
        return self._spec.limited(self._config.max_sessions, self._config.execution)

    @property
    def is_concurrency_safe(self) -> bool:
        """Whether the environment allows more than one session."""
        return self._spec.limited(2, self._config.execution) == 2

    @property
    def concurrency_config(self) -> ConcurrencyConfig:
        """The limits as the published package's class."""
        return ConcurrencyConfig(
            max_concurrent_envs=self.max_concurrent_envs, session_timeout=self._config.idle_timeout_s
        )

    def get_capacity_status(self) -> ServerCapacityStatus:
        """How full the server is."""
        return ServerCapacityStatus.from_counts(self.active_sessions, self.max_concurrent_envs)

    def get_session_info(self, session_id: str) -> SessionInfo | None:
        """Identity and progress of a session, or None when no session has that id."""
        session = self._sessions.get(session_id) if self._sessions is not None else None
        if session is None:
            return None
        now_s = time.time() - time.monotonic()
        return SessionInfo(
            session_id=session.id,
            created_at=now_s + session.created,
            last_activity_at=now_s + session.last_activity,
            step_count=session.num_steps,
            environment_type=self._spec.environment_cls.__name__,
        )


def resolve_served(
    env: EnvironmentSource,
    action_cls: type[Action] | None,
    observation_cls: type[Observation] | None,
    max_concurrent_envs: int | None,
    concurrency_config: ConcurrencyConfig | None,
    env_name: str | None,
    state_cls: type[State] | None,
    mode: ServerMode | str | None,
    reset_observation_cls: type[Observation] | None,
    config: ServerConfig | None,
) -> tuple[EnvSpec, ServerConfig]:
    """What `create_app` serves, and within which limits. Raises as `create_app` does."""
    limits = _limits(config, max_concurrent_envs, concurrency_config, mode)
    spec = resolve_env_spec(env, action_cls, observation_cls, state_cls, env_name, reset_observation_cls)
    _refuse_too_many(spec, limits, is_requested=bool(max_concurrent_envs or concurrency_config))
    return spec, limits


def _refuse_too_many(spec: EnvSpec, limits: ServerConfig, *, is_requested: bool) -> None:
    if is_requested and spec.limited(limits.max_sessions, limits.execution) < limits.max_sessions:
        raise ConcurrencyConfigurationError(spec.environment_cls.__name__, limits.max_sessions)


def _limits(
    config: ServerConfig | None,
    max_concurrent_envs: int | None,
    concurrency: ConcurrencyConfig | None,
    mode: ServerMode | str | None,
) -> ServerConfig:
    published: dict[str, Any] = {}
    if max_concurrent_envs is not None and concurrency is not None:
        raise ValueError("max_concurrent_envs and concurrency_config set the same limit: give one of them")
    if max_concurrent_envs is not None:
        published["max_sessions"] = max_concurrent_envs
    if concurrency is not None:
        published["max_sessions"] = concurrency.max_concurrent_envs
        if concurrency.session_timeout is not None:
            published["idle_timeout_s"] = concurrency.session_timeout
    if mode is not None:
        published["mode"] = ServerMode(mode.lower())
    if config is not None and published:
        raise ValueError(f"config and {', '.join(published)} set the same fields: give config alone")
    return config or ServerConfig(**published)


_INTERRUPTED = 130
"""The exit code of a program that Ctrl-C has ended."""


def serve(
    app: "AppSource", host: str = "127.0.0.1", port: int = 8000, *, log_level: str = "warning", workers: int = 1
) -> None:
    """Run `app` until SIGINT or SIGTERM; steps that run are finished first.

    app: an application, an Environment class, a function that returns an application or an environment, or
    `MODULE:NAME` of one of these. host: an address, `unix:/run/echo.sock` for a Unix socket, or `fd:0` for a listening
    socket that this program has inherited as that file descriptor. workers: processes that share the sessions behind
    the port; more than 1 need `MODULE:NAME`, or a class or function of a module. After SIGTERM a program that serves in
    its main thread exits with 0, after Ctrl-C with 130. Raises ValueError where an event loop runs already, as in a
    notebook, for workers that cannot run, and for an app that cannot be served, LookupError when `MODULE:NAME` does not
    exist, and OSError when it cannot listen. A line on stderr says where it serves, once it does.
    """
    _refuse_running_loop()
    if workers < 1:
        raise ValueError(f"workers={workers}: give 1, or as many as the machine has cores")
    if workers > 1:
        # imported only by a server with workers, as FastAPI and uvicorn are
        from openenv.core.env_server.workers.supervisor import serve_with_workers

        serve_with_workers(app, host, port, workers=workers, log_level=log_level)
        return
    if threading.current_thread() is threading.main_thread():
        # uvicorn raises the signal again, after its shutdown, for the handler of before
        exit_on_sigterm()
    with children_end_at_exit():
        running = server(app, host, port, log_level=log_level)
        listeners = None
        if not host.startswith((UNIX, INHERITED)):
            listeners = open_listeners(host, port)
            port = listeners[0].getsockname()[1]
        running.on_listening = partial(announce_app, running.config.app, host, port)
        try:
            running.run(listeners)
        except KeyboardInterrupt:
            raise SystemExit(_INTERRUPTED) from None  # the server has stopped, and there is nothing to trace back


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ValueError(
        "serve() returns when its server ends, and an event loop runs here already, as in a notebook: write `await "
        "server(app, host, port).serve()` (from openenv.core.env_server.http_server), or run `openenv serve` beside it"
    )


def server(app: "AppSource", host: str, port: int, *, log_level: str = "warning") -> "GracefulServer":
    """A server for `app`, not yet running, with the arguments of `serve`. Port 0 takes a free one."""
    # imported only by a running server, as FastAPI is
    from openenv.core.env_server.http.auth import warn_if_exposed
    from openenv.core.env_server.serving.app_loader import load_app, setting_of
    from openenv.core.env_server.serving.graceful_server import GracefulServer

    application = load_app(app)
    warn_if_exposed(host, setting_of(application, "config") or ServerConfig())
    where: dict[str, Any] = {"host": host, "port": port}
    if host.startswith(UNIX):
        where = {"uds": host.removeprefix(UNIX)}
    elif host.startswith(INHERITED):
        where = {"fd": int(host.removeprefix(INHERITED))}
    return GracefulServer(application, log_level=log_level, **where)
