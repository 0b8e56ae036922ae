"""Callers and subclasses written for the published package find its names, its parameters, and their defaults."""

import inspect

import pytest

from openenv import AutoAction, AutoEnv
from openenv.core import rubrics
from openenv.core.client_types import StepResult
from openenv.core.containers.runtime import (
    ContainerProvider,
    DockerSwarmProvider,
    LocalDockerProvider,
    RuntimeProvider,
    UVProvider,
)
from openenv.core.env_client import EnvClient
from openenv.core.env_server import exceptions, mcp_types, serialization, types
from openenv.core.env_server.base_transforms import CompositeTransform, NullTransform
from openenv.core.env_server.http_server import HTTPEnvServer, create_app, create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.generic_client import GenericAction, GenericEnvClient
from openenv.core.mcp_client import MCPToolClient
from openenv.core.sync_client import SyncEnvClient

CLIENT = (
    "base_url=None, connect_timeout_s=10.0, message_timeout_s=60.0, max_message_size_mb=100.0, "
    "websocket_ping_interval_s=20.0, websocket_ping_timeout_s=20.0, provider=None, mode=None, headers=None"
)
AUTO = (
    "name, base_url=None, docker_image=None, container_provider=None, wait_timeout=30.0, env_vars=None, "
    "trust_remote_code=False, skip_install=False, **kwargs"
)
SERVED = "env, action_cls=None, observation_cls=None"
HOOKS = {"_step_payload": "action", "_parse_result": "payload", "_parse_state": "payload"}
CONTAINER = {
    "start_container": "image, port=None, env_vars=None, **kwargs",
    "stop_container": "",
    "wait_for_ready": "base_url, timeout_s=30.0",
    "close": "",
}
SIGNATURES = {
    StepResult: {"": "observation, reward=None, done=False, metadata=None"},
    EnvClient: {
        "": CLIENT,
        "new_session": "",
        "connect": "",
        "disconnect": "",
        "from_docker_image": "image, provider=None, **kwargs",
        "from_env": "repo_id, *, use_docker=True, provider=None, **provider_kwargs",
        "reset": "**kwargs",
        "step": "action, **kwargs",
        "state": "",
        "close": "",
        "sync": "",
        **HOOKS,
    },
    SyncEnvClient: {
        "": "async_client",
        "connect": "",
        "disconnect": "",
        "reset": "**kwargs",
        "step": "action, **kwargs",
        "state": "",
        "close": "",
        "new_session": "",
        **HOOKS,
    },
    GenericEnvClient: {"": CLIENT, **HOOKS},
    GenericAction: {"": "**kwargs"},
    ContainerProvider: CONTAINER,
    LocalDockerProvider: {"": "", **CONTAINER},
    DockerSwarmProvider: {"": "*, auto_init_swarm=True, overlay_network=None", **CONTAINER},
    RuntimeProvider: {
        "start": "port=None, env_vars=None, **kwargs",
        "stop": "",
        "wait_for_ready": "timeout_s=30.0",
    },
    UVProvider: {
        "start": "port=None, env_vars=None, workers=1, **kwargs",
        "stop": "",
        "wait_for_ready": "timeout_s=None",
    },
    AutoEnv: {
        "from_env": AUTO,
        "from_hub": AUTO,
        "get_env_class": "name",
        "get_env_info": "name",
        "list_environments": "",
    },
    AutoAction: {
        "from_env": "name, skip_install=False",
        "from_hub": "env_name, skip_install=False",
        "get_action_info": "name",
        "list_actions": "",
    },
    MCPToolClient: {
        "": "base_url=None, connect_timeout_s=10.0, message_timeout_s=60.0, websocket_ping_interval_s=20.0, "
            "websocket_ping_timeout_s=20.0, provider=None, mode=None, max_message_size_mb=100.0, headers=None",
        "list_tools": "use_cache=True",
        "call_tool": "name, /, **kwargs",
        "get_tool": "name",
        "has_tool": "name",
        **HOOKS,
    },
    Environment: {
        "reset": "seed=None, episode_id=None, **kwargs",
        "reset_async": "seed=None, episode_id=None, **kwargs",
        "step": "action, timeout_s=None, **kwargs",
        "step_async": "action, timeout_s=None, **kwargs",
        "get_metadata": "",
        "close": "",
    },
    MCPEnvironment: {
        "": "mcp_server, transform=None",
        "mcp_session": "",
        "get_callables": "",
        "execute_code": "code",
        "tool": "mode=None",
        "step": "action, timeout_s=None, **kwargs",
        "step_async": "action, timeout_s=None, **kwargs",
        "close": "",
    },
    HTTPEnvServer: {
        "": f"{SERVED}, max_concurrent_envs=None, concurrency_config=None, env_name=None, state_cls=None, "
            "*, reset_observation_cls=None",
        "get_capacity_status": "",
        "get_session_info": "session_id",
        "register_routes": "app, mode=<ServerMode.SIMULATION: 'simulation'>",
    },
    types.ServerCapacityStatus: {"from_counts": "active, max_sessions"},
    CompositeTransform: {"": "transforms"},
    NullTransform: {"": ""},
    mcp_types.JsonRpcError: {"from_code": "code, message=None, data=None"},
    mcp_types.JsonRpcResponse: {
        "success": "result, request_id=None",
        "error_response": "code, message=None, data=None, request_id=None",
        "model_dump": "**kwargs",
        "model_dump_json": "**kwargs",
    },
    exceptions.ConcurrencyConfigurationError: {"": "environment_name, max_concurrent_envs, message=None"},
    exceptions.EnvironmentFactoryError: {"": "factory_name, message=None"},
    exceptions.SessionCapacityError: {"": "active_sessions, max_sessions, message=None"},
    exceptions.SessionCreationError: {"": "reason, message=None"},
    exceptions.SessionNotFoundError: {"": "session_id, message=None"},
    rubrics.Rubric: {
        "forward": "action, observation",
        "register_forward_hook": "hook",
        "register_forward_pre_hook": "hook",
        "children": "",
        "named_children": "",
        "rubrics": "",
        "named_rubrics": "prefix=''",
        "get_rubric": "path",
        "reset": "",
        "state_dict": "",
        "load_state_dict": "state",
    },
    rubrics.Sequential: {"": "*rubrics"},
    rubrics.Gate: {"": "rubric, threshold=1.0"},
    rubrics.WeightedSum: {"": "rubrics, weights"},
    rubrics.RubricList: {"": "rubrics=None", "append": "rubric", "extend": "rubrics"},
    rubrics.RubricDict: {"": "rubrics=None", "keys": "", "values": "", "items": "", "update": "rubrics"},
    rubrics.TrajectoryRubric: {"score_trajectory": "trajectory", "compute_step_rewards": ""},
    rubrics.ExponentialDiscountingTrajectoryRubric: {"": "gamma=0.99, intermediate_reward=0.0"},
    rubrics.LLMJudge: {"": "prompt_template, client, *, score_pattern=None, default_score=0.0, normalize=True"},
}  # fmt: skip
FUNCTIONS = {
    create_app: f"{SERVED}, env_name=None, max_concurrent_envs=None, concurrency_config=None, gradio_builder=None, "
    "custom_tab_name='Custom', custom_tab_primary=False, show_default_tab=True, title_override=None, state_cls=None, "
    "*, mode=None, reset_observation_cls=None",
    create_fastapi_app: f"{SERVED}, max_concurrent_envs=None, concurrency_config=None, env_name=None, state_cls=None, "
    "*, mode=None, reset_observation_cls=None",
    serialization.serialize_observation: "observation",
    serialization.deserialize_action: "action_data, action_cls",
    serialization.deserialize_action_with_preprocessing: "action_data, action_cls",
}
PROPERTIES = [
    (EnvClient, "base_url"),
    (SyncEnvClient, "async_client"),
    (UVProvider, "base_url"),
    (MCPEnvironment, "supports_code_mode"),
    (HTTPEnvServer, "active_sessions"),
    (HTTPEnvServer, "max_concurrent_envs"),
    (HTTPEnvServer, "is_concurrency_safe"),
    (HTTPEnvServer, "concurrency_config"),
    (types.ServerCapacityStatus, "available_slots"),
    (types.ServerCapacityStatus, "is_at_capacity"),
    (rubrics.WeightedSum, "weights"),
    (rubrics.TrajectoryRubric, "trajectory"),
]
FIELDS = {
    types.Action: "metadata",
    types.Observation: "done reward metadata",
    types.State: "episode_id step_count",
    types.CodeExecResult: "stdout stderr exit_code",
    types.ConcurrencyConfig: "max_concurrent_envs session_timeout",
    types.EnvironmentMetadata: "name description readme_content version author documentation_url",
    types.GetTaskRangeRequest: "split start stop",
    types.GetTaskRequest: "split index",
    types.HealthResponse: "status",
    types.ListTasksRequest: "split",
    types.NumTasksRequest: "split",
    types.ResetRequest: "seed episode_id",
    types.ResetResponse: "observation reward done metadata",
    types.SchemaResponse: "action observation state reset_observation",
    types.ServerCapacityStatus: "active_sessions max_sessions",
    types.SessionInfo: "session_id created_at last_activity_at step_count environment_type",
    types.StepRequest: "action timeout_s request_id",
    types.StepResponse: "observation reward done metadata",
    types.WSCloseMessage: "type",
    types.WSErrorResponse: "type data",
    types.WSObservationResponse: "type data",
    types.WSResetMessage: "type data",
    types.WSStateMessage: "type",
    types.WSStateResponse: "type data",
    types.WSStepMessage: "type data",
    mcp_types.CallToolAction: "metadata type tool_name arguments",
    mcp_types.CallToolObservation: "done reward metadata tool_name result error",
    mcp_types.JsonRpcError: "code message data",
    mcp_types.JsonRpcRequest: "jsonrpc method params id",
    mcp_types.JsonRpcResponse: "jsonrpc result error id",
    mcp_types.ListToolsAction: "metadata type",
    mcp_types.ListToolsObservation: "done reward metadata tools",
    mcp_types.Tool: "name description input_schema",
    mcp_types.ToolError: "error_type message",
    mcp_types.WSMCPMessage: "type data",
    mcp_types.WSMCPResponse: "type data",
}
ENUMS = {
    types.HealthStatus: "HEALTHY UNHEALTHY DEGRADED",
    types.ServerMode: "SIMULATION PRODUCTION",
    types.WSErrorCode: "INVALID_JSON UNKNOWN_TYPE VALIDATION_ERROR EXECUTION_ERROR CAPACITY_REACHED FACTORY_ERROR "
    "SESSION_ERROR",
    mcp_types.JsonRpcErrorCode: "PARSE_ERROR INVALID_REQUEST METHOD_NOT_FOUND INVALID_PARAMS INTERNAL_ERROR "
    "SERVER_ERROR",
    mcp_types.McpMethod: "TOOLS_LIST TOOLS_CALL",
    mcp_types.ToolErrorType: "EXECUTION_ERROR INVALID_ARGS TRANSPORT_ERROR TOOL_NOT_FOUND TIMEOUT",
}


def parameters(callable_, published: str) -> str:
    """The parameters of a callable as they are written, less the keyword-only ones that the published one has not."""
    kept = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(callable_).parameters.values()
        if parameter.name != "self"
        and (parameter.kind is not inspect.Parameter.KEYWORD_ONLY or f" {parameter.name}=" in published)
    ]
    return str(inspect.Signature(kept))[1:-1]


@pytest.mark.parametrize(
    ("cls", "method", "published"),
    [(cls, method, published) for cls, methods in SIGNATURES.items() for method, published in methods.items()],
)
def test_the_published_parameters_are_there_in_their_order_with_their_defaults(cls, method, published):
    ours = parameters(getattr(cls, method) if method else cls, published)
    if cls is StepResult:
        ours = ours.removesuffix(", validity='valid'")

    assert ours == published


@pytest.mark.parametrize(("function", "published"), FUNCTIONS.items())
def test_the_published_functions_take_what_they_took(function, published):
    assert parameters(function, published) == published


@pytest.mark.parametrize(("model", "fields"), FIELDS.items())
def test_the_published_models_have_their_fields_in_order(model, fields):
    assert list(model.model_fields)[: len(fields.split())] == fields.split()


@pytest.mark.parametrize(("enum", "names"), ENUMS.items())
def test_the_published_enumerations_have_their_members(enum, names):
    assert [member.name for member in enum][: len(names.split())] == names.split()


@pytest.mark.parametrize(("cls", "name"), PROPERTIES)
def test_the_published_properties_are_there(cls, name):
    assert isinstance(getattr(cls, name), property)


def test_all_of_the_constructor_may_be_given_by_position():
    client = EnvClient("localhost:8000/", 1.0, 2.0, 3.0, 4.0, 5.0, None, "Production", {"X-A": "b"})

    assert client.base_url == "localhost:8000"
    address = client.address
    assert (address.connect_timeout_s, address.message_timeout_s, address.max_size) == (1.0, 2.0, 3 << 20)
    assert (address.ping_interval_s, address.ping_timeout_s, address.headers) == (4.0, 5.0, {"X-A": "b"})


def test_a_mode_that_is_none_is_refused_by_name():
    with pytest.raises(ValueError, match=r"mode='test': must be one of 'simulation', 'production'"):
        EnvClient("http://localhost:8000", mode="test")


def test_neither_a_url_nor_a_provider_is_refused():
    with pytest.raises(ValueError, match="needs a base_url, or a provider"):
        EnvClient()


def test_a_provider_of_ones_own_needs_three_methods():
    class Mine(ContainerProvider):
        def start_container(self, image, port=None, env_vars=None, **kwargs):
            return "http://localhost:1"

        def stop_container(self):
            pass

        def wait_for_ready(self, base_url, timeout_s=30.0):
            pass

    with Mine() as provider:
        assert provider.start_container("x") == "http://localhost:1"
