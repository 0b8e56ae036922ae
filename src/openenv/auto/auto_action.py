"""Action classes by the name of their environment."""

from typing import Any

from openenv.auto.auto_env import AutoEnv as AutoEnv
from openenv.auto.auto_env import install_space
from openenv.auto.discovery import environments, find_environment
from openenv.auto.resolver import resolve
from openenv.core.generic_client import GenericAction
from openenv.formats.text_file import printable


class AutoAction:
    """Finds the action class for a name. All methods are class methods."""

    def __init__(self) -> None:
        raise TypeError("AutoAction has no instances: call AutoAction.from_env(name)")

    @classmethod
    def from_env(cls, name: str, skip_install: bool = False, *, trust_remote_code: bool = False) -> type[Any]:
        """Return the action class of an environment.

        Args:
            name: as in `AutoEnv.from_env`.
            skip_install: return GenericAction, for the client of `AutoEnv.from_env(name, skip_install=True)`. So is it
                for a name whose server alone knows the classes, such as FILE.py:CLASS or a URL: the client checks the
                fields.
            trust_remote_code: allow the installation of a Space's package.

        Raises:
            UnknownEnvironment: for a name that none has.
            RemoteCodeRefused: for a Space's package without trust_remote_code.
            ImportError: without the libraries of the environment.
        """
        if skip_install:
            return GenericAction
        source = resolve(name)
        if source.space is not None:
            return install_space(source.space, trust_remote_code=trust_remote_code).action_class
        return GenericAction if source.info is None else source.info.action_class

    @classmethod
    def from_hub(cls, env_name: str, skip_install: bool = False, *, trust_remote_code: bool = False) -> type[Any]:
        """Alias of `from_env`."""
        return cls.from_env(env_name, skip_install, trust_remote_code=trust_remote_code)

    @classmethod
    def get_action_info(cls, name: str) -> dict[str, Any]:
        """Return names and modules of an environment's messages. Raises UnknownEnvironment, ImportError."""
        info = find_environment(name)
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
            print(printable(f"{info.key:<16} {name:<24} {info.package}"))
