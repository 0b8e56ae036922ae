"""An action class by the name of its environment."""

from typing import Any

from openenv.auto.discovery import EnvironmentInfo, environments, find
from openenv.auto.installation import installed_space
from openenv.core.containers.hub import Space
from openenv.core.generic_client import GenericAction


class AutoAction:
    """Finds the action class for a name. Not made itself: its methods are class methods."""

    def __init__(self) -> None:
        raise TypeError("AutoAction is not made: call AutoAction.from_env(name)")

    @classmethod
    def from_env(cls, name: str, skip_install: bool = False) -> type[Any]:
        """The class of the actions that the environment takes, for the names that `AutoEnv.from_env` takes.

        skip_install: GenericAction, which the client of `AutoEnv.from_env(name, skip_install=True)` takes. A Space that
        is not installed is, if OPENENV_TRUST_REMOTE_CODE=1. Raises UnknownEnvironment, RemoteCodeRefused, ImportError.
        """
        return GenericAction if skip_install else _info(name).action_class

    @classmethod
    def from_hub(cls, env_name: str, skip_install: bool = False) -> type[Any]:
        """`from_env` by another name."""
        return cls.from_env(env_name, skip_install)

    @classmethod
    def get_action_info(cls, name: str) -> dict[str, Any]:
        """What is known of an environment's action. Raises UnknownEnvironment, ImportError."""
        info = find(name)
        return {
            "env_key": info.key,
            "env_name": info.name,
            "package": info.package,
            "action_class": info.action_class.__name__,
            "observation_class": info.observation_class.__name__,
            "module": info.client_module,
        }

    @classmethod
    def list_actions(cls) -> None:
        """Print the action class of each bundled and installed environment."""
        for info in environments().values():
            try:
                name = info.action_class.__name__
            except ImportError as error:
                name = f"({error})"
            print(f"{info.key:<16} {name:<24} {info.package}")


def _info(name: str) -> EnvironmentInfo:
    return installed_space(Space(name), trust_remote_code=False) if "/" in name else find(name)
