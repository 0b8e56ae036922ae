"""Train a language model in any environment: an independent implementation of the OpenEnv specification."""

from typing import TYPE_CHECKING

from openenv.compat.aliases import names_elsewhere
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server import (
    Action,
    Environment,
    Observation,
    ServerConfig,
    State,
    create_app,
)
from openenv.core.errors import OpenEnvError
from openenv.core.generic_client import GenericAction, GenericEnvClient
from openenv.core.sync_client import SyncEnvClient
from openenv.installation import bundle_version
from openenv.text.interface import TextInterface

if TYPE_CHECKING:
    from openenv.auto import AutoAction, AutoEnv, make_vec
    from openenv.hosting.serving.environment_program import EnvironmentProgram
    from openenv.hosting.serving.server import serve

__getattr__, __dir__ = names_elsewhere(
    __name__,
    {
        **dict.fromkeys(("AutoAction", "AutoEnv", "auto", "make_vec"), "openenv.auto"),
        "EnvironmentProgram": "openenv.hosting.serving.environment_program",
        "serve": "openenv.hosting.serving.server",
    },
)

__version__ = bundle_version()

__all__ = [
    "Action",
    "AutoAction",
    "AutoEnv",
    "EnvClient",
    "Environment",
    "EnvironmentProgram",
    "GenericAction",
    "GenericEnvClient",
    "Observation",
    "OpenEnvError",
    "ServerConfig",
    "State",
    "StepResult",
    "SyncEnvClient",
    "TextInterface",
    "create_app",
    "make_vec",
    "serve",
]
