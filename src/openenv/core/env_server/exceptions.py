"""Errors of a server under the published names, each a subclass of one in `openenv.core.errors`."""

from openenv.core.errors import CapacityReached, FactoryFault, OpenEnvError, SessionFault

__all__ = [
    "ConcurrencyConfigurationError",
    "EnvironmentFactoryError",
    "OpenEnvError",
    "SessionCapacityError",
    "SessionCreationError",
    "SessionNotFoundError",
]


class ConcurrencyConfigurationError(OpenEnvError, ValueError):
    """More sessions were configured than the environment allows."""

    def __init__(self, environment_name: str, max_concurrent_envs: int, message: str | None = None) -> None:
        self.environment_name = environment_name
        self.max_concurrent_envs = max_concurrent_envs
        super().__init__(
            message
            or f"max_concurrent_envs={max_concurrent_envs}: {environment_name} declares SUPPORTS_CONCURRENT_SESSIONS = "
            "False. Serve 1 session, or let its instances share nothing and declare True."
        )


class SessionCapacityError(CapacityReached):
    """The server holds as many sessions as it may."""

    def __init__(
        self, active_sessions: int, max_sessions: int, message: str | None = None, *, retry_after_s: int | None = None
    ) -> None:
        """retry_after_s: seconds after which the caller may try again."""
        self.active_sessions = active_sessions
        self.max_sessions = max_sessions
        counted = (
            f"Server at capacity: {active_sessions}/{max_sessions} sessions active. Cannot accept new connections."
        )
        later = {} if retry_after_s is None else {"retry_after_s": retry_after_s}
        super().__init__(message or counted, active_sessions=active_sessions, max_sessions=max_sessions, **later)


class SessionNotFoundError(SessionFault):
    """The session is unknown, or has ended."""

    def __init__(self, session_id: str, message: str | None = None) -> None:
        self.session_id = session_id
        super().__init__(message or f"Unknown session_id: {session_id}")


class SessionCreationError(SessionFault):
    """A session could not be opened, for a reason that is not its environment's."""

    def __init__(self, reason: str, message: str | None = None) -> None:
        self.reason = reason
        super().__init__(message or f"the session could not be opened: {reason}")


class EnvironmentFactoryError(FactoryFault):
    """The environment could not be made."""

    def __init__(self, factory_name: str, message: str | None = None) -> None:
        self.factory_name = factory_name
        super().__init__(message or f"{factory_name} could not be made")
