"""Makes the application that serves an environment, and runs it."""

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.declaration import EnvironmentSource, declare
from openenv.core.env_server.exposure import warn_if_exposed
from openenv.core.env_server.types import Action, ConcurrencyConfig, Observation, ServerMode, State

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI


def create_app(
    env: EnvironmentSource,
    action_cls: type[Action] | None = None,
    observation_cls: type[Observation] | None = None,
    env_name: str | None = None,
    max_concurrent_envs: int | None = None,
    concurrency_config: ConcurrencyConfig | None = None,
    state_cls: type[State] | None = None,
    *,
    mode: ServerMode | str | None = None,
    config: ServerConfig | None = None,
) -> "FastAPI":
    """The application that serves `env` over HTTP and WebSocket.

    env: an Environment class or a factory (one environment for each session), or one ready instance (one session at a
    time). Message classes that are not given are read from the environment's declaration. `max_concurrent_envs`,
    `concurrency_config` and `mode` are the published package's words for `config`.

    Raises TypeError when `env` is no environment, ValueError when `config` comes with one of the published words.
    """
    # FastAPI takes half a second to import: whoever only needs the messages of an environment does not pay for it.
    from openenv.core.env_server.routes import environment_app

    limits = _limits(config, max_concurrent_envs, concurrency_config, mode)
    return environment_app(declare(env, action_cls, observation_cls, state_cls, env_name), limits)


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
) -> "FastAPI":
    """`create_app` with the parameters in the order of the published function of this name."""
    return create_app(
        env, action_cls, observation_cls, env_name, max_concurrent_envs, concurrency_config, state_cls, mode=mode
    )


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


def serve(app: "FastAPI", host: str = "127.0.0.1", port: int = 8000, *, log_level: str = "warning") -> None:
    """Run `app` until it is interrupted or asked to stop; steps that run are finished first.

    SIGTERM is a wish like any other: in the main thread the program then exits with 0.
    """
    if threading.current_thread() is threading.main_thread():
        # uvicorn hands the signal on, when it is done, to whoever had it before
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server(app, host, port, log_level=log_level).run()


def server(app: "FastAPI", host: str, port: int, *, log_level: str = "warning") -> "uvicorn.Server":
    """A server for `app`, not yet running. Port 0 takes a free one."""
    # uvicorn belongs to a running server, as FastAPI does.
    import uvicorn

    class DrainingServer(uvicorn.Server):
        """Lets steps that run finish, and their answers leave, before connections are closed."""

        async def shutdown(self, sockets: Any = None) -> None:
            if sessions is not None:
                await sessions.drain()
            await super().shutdown(sockets)

    # an application that an author made around one of ours has neither
    sessions = getattr(app.state, "sessions", None)
    config: ServerConfig = getattr(app.state, "config", ServerConfig())
    warn_if_exposed(host, config)
    # No WebSocket pings: a client that computes between two steps, blocking its thread, must not lose its session.
    # A frame above the limit is answered with an error that names the limit; only one far above closes the connection.
    settings = uvicorn.Config(
        app, host=host, port=port, log_level=log_level, loop="uvloop", http="httptools", ws="websockets-sansio",
        ws_ping_interval=None, ws_ping_timeout=None, ws_per_message_deflate=False,
        ws_max_size=2 * config.max_message_bytes + (1 << 20), timeout_graceful_shutdown=3,
    )  # fmt: skip
    return DrainingServer(settings)
