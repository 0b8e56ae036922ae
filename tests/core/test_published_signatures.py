"""Callers and subclasses written for the published package find its names, its parameters, and their defaults."""

import inspect

import pytest

from openenv import AutoAction, AutoEnv
from openenv.core.client_types import StepResult
from openenv.core.containers.runtime import (
    ContainerProvider,
    DockerSwarmProvider,
    LocalDockerProvider,
    RuntimeProvider,
    UVProvider,
)
from openenv.core.env_client import EnvClient
from openenv.core.generic_client import GenericAction, GenericEnvClient
from openenv.core.sync_client import SyncEnvClient

CLIENT = (
    "base_url=None, connect_timeout_s=10.0, message_timeout_s=60.0, max_message_size_mb=100.0, "
    "websocket_ping_interval_s=20.0, websocket_ping_timeout_s=20.0, provider=None, mode=None, headers=None"
)
AUTO = (
    "name, base_url=None, docker_image=None, container_provider=None, wait_timeout=30.0, env_vars=None, "
    "trust_remote_code=False, skip_install=False, **kwargs"
)
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
}  # fmt: skip
PROPERTIES = [(EnvClient, "base_url"), (SyncEnvClient, "async_client"), (UVProvider, "base_url")]


def parameters(callable_, published: str) -> str:
    """The parameters of a callable as they are written, less the keyword-only ones that the published one has not."""
    kept = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(callable_).parameters.values()
        if parameter.name != "self"
        and (parameter.kind is not inspect.Parameter.KEYWORD_ONLY or f"{parameter.name}=" in published)
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


@pytest.mark.parametrize(("cls", "name"), PROPERTIES)
def test_the_published_properties_are_there(cls, name):
    assert isinstance(getattr(cls, name), property)


def test_all_of_the_constructor_may_be_given_by_position():
    client = EnvClient("localhost:8000/", 1.0, 2.0, 3.0, 4.0, 5.0, None, "Production", {"X-A": "b"})

    assert client.base_url == "localhost:8000"
    assert client._mode == "production"
    address = client._address
    assert (address.connect_timeout_s, client._message_timeout_s, address.max_size) == (1.0, 2.0, 3 << 20)
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
