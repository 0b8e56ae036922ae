"""An argument of the wrong type is named with what to give, before anything is connected or started."""

import numpy as np
import pytest

from openenv import AutoAction, AutoEnv, GenericEnvClient, SyncEnvClient, make_vec
from openenv.agents.llm.client import OpenAIClient
from openenv.auto.schema_client import describe_server
from openenv.core.http_env_client import HTTPEnvClient
from openenv.core.mcp_client import MCPToolClient
from openenv.core.session_pool import SessionPool
from openenv.integrations.tools.git_server_client import GitServerClient
from openenv.integrations.tools.local_python_executor import PyExecutor

pytestmark = pytest.mark.finding("what is not there or not read is an error with the next step")
URL = "http://127.0.0.1:9"
WRONG = (5, True, [1], object(), b"x", ("a", "b"))
NUMBERS = ("connect_timeout_s", "message_timeout_s", "max_message_size_mb", "websocket_ping_interval_s")


@pytest.mark.parametrize("client", [GenericEnvClient, HTTPEnvClient, MCPToolClient])
@pytest.mark.parametrize("name", ["base_url", "mode", "session_id", "headers", "provider"])
@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: type(value).__name__)
def test_a_client_names_the_argument(client, name, wrong):
    with pytest.raises(TypeError, match=f"{name} is of type {type(wrong).__name__}: give "):
        client(**{"base_url": URL, name: wrong})


@pytest.mark.parametrize("name", [*NUMBERS, "websocket_ping_timeout_s"])
@pytest.mark.parametrize("wrong", ["x", True, [1], {1: 2}, -1, float("nan")], ids=str)
def test_a_client_names_a_number(name, wrong):
    with pytest.raises((TypeError, ValueError), match=f"{name}(=| is of type ).*: give "):
        GenericEnvClient(URL, **{name: wrong})


def test_a_pool_without_a_server_is_refused():
    with pytest.raises(ValueError, match=r"base_url=\[\]: a pool has at least 1 server"):
        SessionPool(GenericEnvClient, [], 2)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: SessionPool(5, URL, 2), "client_class"),
        (lambda: SessionPool(GenericEnvClient, 5, 2), "base_url"),
        (lambda: SessionPool(GenericEnvClient, URL, "2"), "num_sessions"),
        (lambda: SyncEnvClient(5), "async_client"),
        (lambda: GenericEnvClient(URL).vector("2"), "num_envs"),
        (lambda: GenericEnvClient(URL).vector(2, num_sessions=1.5), "num_sessions"),
        (lambda: GenericEnvClient(URL).vector(2, options=5), "options"),
        (lambda: make_vec(URL, "2"), "num_envs"),
        (lambda: make_vec(5, 2), "name"),
        (lambda: AutoEnv.from_env(5), "name"),
        (lambda: AutoEnv.from_env(URL, headers=5), "headers"),
        (lambda: AutoEnv.get_env_class(None), "name"),
        (lambda: AutoAction.from_env([1]), "name"),
        (lambda: describe_server(5), "base_url"),
        (lambda: describe_server(URL, headers="x"), "headers"),
        (lambda: GenericEnvClient.from_docker_image(5), "image"),
        (lambda: GenericEnvClient.from_env(5), "repo_id"),
        (lambda: OpenAIClient(5, None, "model"), "endpoint"),
        (lambda: OpenAIClient(URL, "80", "model"), "port"),
        (lambda: OpenAIClient(URL, None, 5), "model"),
        (lambda: OpenAIClient(URL, None, "model", 5), "api_key"),
        (lambda: GitServerClient(URL, "agent", None), "password"),
        (lambda: PyExecutor("numpy"), "additional_imports"),
    ],
)
def test_pools_vectors_and_other_constructors_name_the_argument(make, name):
    with pytest.raises(TypeError, match=f"{name} is of type .*: give "):
        make()


def test_a_way_to_reset_that_is_no_text_is_named():
    with pytest.raises(ValueError, match=r"autoreset=\[1\]: give one of next_step"):
        GenericEnvClient(URL).vector(2, autoreset=[1])


def test_numbers_of_numpy_are_numbers():
    SessionPool(GenericEnvClient, URL, np.int64(2))
    GenericEnvClient(URL, max_message_size_mb=np.float32(2))
