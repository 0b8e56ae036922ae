"""The specification: messages, the environment's interface, its server, and its clients."""

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.generic_client import GenericAction, GenericEnvClient
from openenv.core.sync_client import SyncEnvClient

__all__ = [
    "Action",
    "EnvClient",
    "Environment",
    "GenericAction",
    "GenericEnvClient",
    "Observation",
    "State",
    "StepResult",
    "SyncEnvClient",
]
