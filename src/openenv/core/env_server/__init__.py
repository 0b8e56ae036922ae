"""The server's side of the specification: messages, environments, and the application that serves them."""

from typing import TYPE_CHECKING

from openenv.compat.aliases import names_elsewhere
from openenv.compat.moved import NAMES
from openenv.compat.route_config import GetEndpointConfig
from openenv.core.env_server.base_transforms import CompositeTransform, NullTransform
from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.exceptions import (
    ConcurrencyConfigurationError,
    EnvironmentFactoryError,
    OpenEnvError,
    SessionCapacityError,
    SessionCreationError,
    SessionNotFoundError,
)
from openenv.core.env_server.http_server import HTTPEnvServer, create_app, create_fastapi_app
from openenv.core.env_server.interfaces import Environment, Message, ModelTokenizer, TaskProvider, Transform
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import (
    RESERVED_TOOL_NAMES,
    CallToolAction,
    CallToolObservation,
    JsonRpcError,
    JsonRpcErrorCode,
    JsonRpcRequest,
    JsonRpcResponse,
    ListToolsAction,
    ListToolsObservation,
    McpMethod,
    Tool,
    ToolError,
    ToolErrorType,
    WSMCPMessage,
    WSMCPResponse,
)
from openenv.core.env_server.serialization import (
    deserialize_action,
    deserialize_action_with_preprocessing,
    serialize_observation,
)
from openenv.core.env_server.types import (
    Action,
    BaseMessage,
    ConcurrencyConfig,
    EnvironmentMetadata,
    GetTaskRangeRequest,
    GetTaskRequest,
    HealthResponse,
    HealthStatus,
    ListTasksRequest,
    NumTasksRequest,
    Observation,
    SchemaResponse,
    ServerCapacityStatus,
    ServerMode,
    SessionInfo,
    State,
    WSCloseMessage,
    WSErrorCode,
    WSErrorResponse,
    WSIncomingMessage,
    WSObservationResponse,
    WSResetMessage,
    WSStateMessage,
    WSStateResponse,
    WSStepMessage,
)

if TYPE_CHECKING:
    from openenv.web.published.interface import WebInterfaceManager, create_web_interface_app

__getattr__, __dir__ = names_elsewhere(__name__, NAMES[__name__])

__all__ = [
    "RESERVED_TOOL_NAMES",
    "Action",
    "BaseMessage",
    "CallToolAction",
    "CallToolObservation",
    "CompositeTransform",
    "ConcurrencyConfig",
    "ConcurrencyConfigurationError",
    "Environment",
    "EnvironmentFactoryError",
    "EnvironmentMetadata",
    "GetEndpointConfig",
    "GetTaskRangeRequest",
    "GetTaskRequest",
    "HTTPEnvServer",
    "HealthResponse",
    "HealthStatus",
    "JsonRpcError",
    "JsonRpcErrorCode",
    "JsonRpcRequest",
    "JsonRpcResponse",
    "ListTasksRequest",
    "ListToolsAction",
    "ListToolsObservation",
    "MCPEnvironment",
    "McpMethod",
    "Message",
    "ModelTokenizer",
    "NullTransform",
    "NumTasksRequest",
    "Observation",
    "OpenEnvError",
    "SchemaResponse",
    "ServerCapacityStatus",
    "ServerConfig",
    "ServerMode",
    "SessionCapacityError",
    "SessionCreationError",
    "SessionInfo",
    "SessionNotFoundError",
    "State",
    "TaskProvider",
    "Tool",
    "ToolError",
    "ToolErrorType",
    "Transform",
    "WSCloseMessage",
    "WSErrorCode",
    "WSErrorResponse",
    "WSIncomingMessage",
    "WSMCPMessage",
    "WSMCPResponse",
    "WSObservationResponse",
    "WSResetMessage",
    "WSStateMessage",
    "WSStateResponse",
    "WSStepMessage",
    "WebInterfaceManager",
    "create_app",
    "create_fastapi_app",
    "create_web_interface_app",
    "deserialize_action",
    "deserialize_action_with_preprocessing",
    "serialize_observation",
]
