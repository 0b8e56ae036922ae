"""Providers drive the installed tools, and their errors contain the output of a tool that failed."""

from pathlib import Path

import pytest
from docker.errors import APIError

from openenv.core.errors import ContainerFault, NotReady
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.hosting.runtime import (
    DockerSwarmProvider,
    UVProvider,
)
from tests.core.env_server.probes import wait_until
from tests.hosting import engines

pytestmark = pytest.mark.process


def played(base_url: str) -> str:
    with EchoEnv(base_url) as env:
        env.reset()
        return env.step(EchoAction(message="hello")).observation.echoed_message


def test_a_server_that_does_not_answer_in_time_is_a_timeout():
    provider = DockerSwarmProvider.__new__(DockerSwarmProvider)
    with pytest.raises(TimeoutError, match=r"127\.0\.0\.1:9 was not healthy in 0\.1 s"):
        provider.wait_for_ready("http://127.0.0.1:9", timeout_s=0.1)


def test_a_missing_tool_is_named_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"there is no command 'uv' on PATH\. Install uv"):
        UVProvider(project_path=".")


_GATEWAY = "docker_gwbridge"
"""The bridge that a swarm makes on its machine."""


@pytest.fixture
def swarm(engine):
    """An engine that is in no swarm, and is in none after the test."""
    if engine.info()["Swarm"]["LocalNodeState"] != "inactive":
        pytest.skip("the engine at DOCKER_HOST is in a swarm already")
    yield engine
    if engine.info()["Swarm"]["LocalNodeState"] != "inactive":
        engine.swarm.leave(force=True)
        wait_until(lambda: _removed(engine, _GATEWAY), timeout_s=60)


def _removed(engine, name):
    """Remove a network; False while an endpoint that ends still uses it."""
    try:
        for network in engine.networks.list(names=[name], greedy=True):
            for endpoint in network.attrs["Containers"].values():
                network.disconnect(endpoint["Name"], force=True)  # of a swarm's load balancer, which may stay for ever
            network.remove()
    except APIError:
        return False
    return True


def test_swarm_makes_a_service_with_its_options(swarm):
    provider = DockerSwarmProvider(overlay_network="games")
    base_url = provider.start_container(
        "echo-env:latest", env_vars={"A": "b"}, replicas=1, cpu_limit=0.5, memory_limit="1g",
        constraints=["node.role==manager"], labels={"team": "red"}, command="serve --fast",
    )  # fmt: skip
    (service,) = swarm.services.list()
    spec = service.attrs["Spec"]
    task = spec["TaskTemplate"]
    provider.stop_container()

    assert spec["Labels"] == {"org.openenv": "1", "team": "red"}
    assert spec["Mode"] == {"Replicated": {"Replicas": 1}}
    assert spec["EndpointSpec"]["Ports"][0]["PublishedPort"] == int(base_url.rpartition(":")[2])
    assert task["Resources"]["Limits"] == {"NanoCPUs": 500_000_000, "MemoryBytes": 1 << 30}
    assert task["Placement"]["Constraints"] == ["node.role==manager"]
    assert task["ContainerSpec"]["Env"] == ["A=b"]
    assert task["ContainerSpec"]["Args"] == ["serve", "--fast"]
    assert swarm.networks.list(names=["games"])[0].attrs["Driver"] == "overlay"
    assert swarm.services.list() == []


def test_swarm_serves_an_image(swarm):
    if engines.is_own(swarm) or not Path("/proc/net/ip_vs").exists():
        pytest.skip("the load balancer of a swarm needs iptables, which an engine of the tests has not, and IPVS")
    provider = DockerSwarmProvider()
    base_url = provider.start_container("echo-env:latest", replicas=1)
    provider.wait_for_ready(base_url, timeout_s=60)
    echoed = played(base_url)
    provider.stop_container()

    assert echoed == "hello"


def test_swarm_is_not_begun_unasked(swarm):
    with pytest.raises(ContainerFault, match="docker swarm init"):
        DockerSwarmProvider(auto_init_swarm=False)


@pytest.mark.parametrize(
    ("keywords", "match"), [({"replica": 1}, "replica: not among"), ({"replicas": 0}, "replicas=0: a service")]
)
def test_swarm_refuses_what_it_does_not_know(swarm, keywords, match):
    with pytest.raises(ValueError, match=match):
        DockerSwarmProvider().start_container("echo-env", **keywords)


def test_uv_serves_a_project(tools, calls_of):
    with UVProvider(project_path="my_env", env_vars={"A": "b"}) as provider:
        provider.wait_for_ready()
        with pytest.raises(ContainerFault, match="already"):
            provider.start()
        assert played(provider.base_url) == "hello"
    _, run = calls_of("uv")

    assert run[:3] == ["run", "--isolated", "--project"]
    assert run[3].startswith("/")
    assert run[3].endswith("/my_env")
    assert run[4:9] == ["--", "uvicorn", "server.app:app", "--host", "127.0.0.1"]
    with pytest.raises(RuntimeError, match="start"):
        _ = provider.base_url


def test_uv_clones_a_repository_and_removes_the_clone(tools, calls_of):
    provider = UVProvider(project_path="git+https://huggingface.co/spaces/a/b")
    provider.start()
    provider.wait_for_ready()
    (clone,) = calls_of("git")
    provider.stop()

    assert clone[:4] == ["clone", "--depth=1", "--", "https://huggingface.co/spaces/a/b"]
    assert calls_of("uv")[-1][3] == clone[4]
    assert not Path(clone[4]).exists()


def test_a_server_that_ends_at_once_is_an_error_with_its_output(tools):
    provider = UVProvider(project_path=".")
    (tools / "uv.fails").write_text("error: no pyproject.toml")
    provider.start()
    with pytest.raises(NotReady, match=r"ended with code 1(?s:.*)no pyproject\.toml"):
        provider.wait_for_ready()
    provider.stop()
