"""Creates the application that serves an environment."""

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openenv.compat.aliases import names_elsewhere
from openenv.compat.moved import NAMES
from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.exceptions import ConcurrencyConfigurationError
from openenv.core.env_server.runner.env_spec import EnvironmentSource, EnvSpec, resolve_env_spec
from openenv.core.env_server.types import (
    Action,
    ConcurrencyConfig,
    Observation,
    ServerCapacityStatus,
    ServerMode,
    SessionInfo,
    State,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

    from openenv.core.env_server.sessions.manager import SessionManager

__getattr__, __dir__ = names_elsewhere(__name__, NAMES[__name__])


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
        self._spec, self._config = resolve_served(
            env, action_cls, observation_cls, max_concurrent_envs, concurrency_config, env_name, state_cls, None,
            reset_observation_cls, config,
        )  # fmt: skip
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
    is_requested = max_concurrent_envs or concurrency_config
    if is_requested and spec.limited(limits.max_sessions, limits.execution) < limits.max_sessions:
        raise ConcurrencyConfigurationError(spec.environment_cls.__name__, limits.max_sessions)
    return spec, limits


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
