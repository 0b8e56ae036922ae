"""Train a language model in any environment: an independent implementation of the OpenEnv specification."""

from openenv.auto import AutoAction, AutoEnv, make_vec
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server import Action, Environment, Observation, ServerConfig, State, create_app, serve
from openenv.core.errors import OpenEnvError
from openenv.core.generic_client import GenericAction, GenericEnvClient
from openenv.core.sync_client import SyncEnvClient
from openenv.core.text_interface import TextInterface
from openenv.core.utils import bundle_version

__version__ = bundle_version()

__all__ = [
    "Action",
    "AutoAction",
    "AutoEnv",
    "EnvClient",
    "Environment",
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
