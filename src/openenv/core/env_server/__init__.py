"""The server's side of the specification: messages, environments, and the application that serves them."""

from openenv.core.env_server.base_transforms import CompositeTransform, NullTransform
from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.http_server import create_app, create_fastapi_app, serve
from openenv.core.env_server.interfaces import Environment, Message, ModelTokenizer, TaskProvider, Transform
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

__all__ = [
    "Action",
    "CompositeTransform",
    "Environment",
    "EnvironmentMetadata",
    "Message",
    "ModelTokenizer",
    "NullTransform",
    "Observation",
    "ServerConfig",
    "State",
    "TaskProvider",
    "Transform",
    "create_app",
    "create_fastapi_app",
    "serve",
]
