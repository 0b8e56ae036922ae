"""Providers drive the installed tools, and their errors contain the output of a tool that failed."""

import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from openenv.core.containers.runtime import (
    DockerSwarmProvider,
    KubernetesProvider,
    LocalDockerProvider,
    UVProvider,
)
from openenv.core.errors import ContainerFault, NotReady
from openenv.envs.echo_env import EchoAction, EchoEnv
from tests.core.containers import fake_tools

pytestmark = pytest.mark.process


def played(base_url: str) -> str:
    with EchoEnv(base_url) as env:
        env.reset()
        return env.step(EchoAction(message="hello")).observation.echoed_message


def test_docker_runs_an_image_on_the_loopback_interface_and_removes_it(tools, calls_of):
    provider = LocalDockerProvider()
    base_url = provider.start_container("owner/echo-env:latest", env_vars={"GAME": "x=1"}, memory="2g", read_only=True)
    provider.wait_for_ready(base_url)
    echoed = played(base_url)
    provider.stop_container()
    provider.stop_container()
    run, stop, remove = (next(args for args in calls_of("docker") if args[0] == verb) for verb in ("run", "stop", "rm"))

    assert echoed == "hello"
    assert {"--detach", "--publish=127.0.0.1::8000", "--env=GAME=x=1", "--memory=2g", "--read-only"} <= set(run)
    assert run[-1] == "owner/echo-env:latest"
    assert f"--name={stop[-1]}" in run
    assert stop[-1] == remove[-1]
    assert stop[-1].startswith("echo-env-")


def test_docker_takes_the_port_that_it_is_given(tools, calls_of):
    from openenv.core.containers.server_process import free_port

    port = free_port()
    provider = LocalDockerProvider()
    assert provider.start_container("echo-env", port=port) == f"http://127.0.0.1:{port}"
    provider.stop_container()


def test_an_image_that_is_missing_raises_dockers_message_with_the_remedy_and_no_secret(tools):
    provider = LocalDockerProvider()
    with pytest.raises(ContainerFault, match=r"Unable to find image 'missing:1'(?s:.*)docker images") as error:
        provider.start_container("missing:1", env_vars={"TOKEN": "s3cret"})

    assert "s3cret" not in str(error.value)
    provider.start_container("echo-env")  # the provider may be used again
    provider.stop_container()


def test_a_container_that_ends_at_once_is_noticed_at_once_with_its_log(tools):
    provider = LocalDockerProvider()
    base_url = provider.start_container("crashing")
    with pytest.raises(NotReady, match=r"has exited(?s:.*)no module named game"):
        provider.wait_for_ready(base_url, timeout_s=60)
    provider.stop_container()


def test_a_server_that_does_not_answer_in_time_is_a_timeout():
    provider = DockerSwarmProvider.__new__(DockerSwarmProvider)
    with pytest.raises(TimeoutError, match=r"127\.0\.0\.1:9 was not healthy in 0\.1 s"):
        provider.wait_for_ready("http://127.0.0.1:9", timeout_s=0.1)


@pytest.mark.parametrize("make", [LocalDockerProvider, DockerSwarmProvider, lambda: UVProvider(project_path=".")])
def test_a_missing_tool_is_named_with_what_to_do(make, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"there is no command '(docker|uv)' on PATH\. (Is Docker|Install uv)"):
        make()


def test_an_engine_that_does_not_run_is_an_error_when_the_provider_is_made(tools):
    (tools / "docker.fails").write_text("Cannot connect to the Docker daemon")
    with pytest.raises(ContainerFault, match=r"Cannot connect to the Docker daemon(?s:.*)docker info"):
        LocalDockerProvider()


def test_a_container_that_cannot_be_removed_can_be_stopped_again(tools):
    provider = LocalDockerProvider()
    provider.start_container("echo-env")
    (tools / "docker.fails").write_text("the daemon is away")
    with pytest.raises(ContainerFault, match="the daemon is away"):
        provider.stop_container()
    (tools / "docker.fails").unlink()
    provider.stop_container()


def test_a_container_that_is_gone_already_is_stopped(tools, calls_of):
    provider = LocalDockerProvider()
    provider.start_container("echo-env")
    (started,) = (args for args in calls_of("docker") if args[0] == "run")
    (name,) = fake_tools.option(started, "name")
    subprocess.run(["docker", "rm", name], check=True, capture_output=True)
    provider.stop_container()


def test_swarm_makes_a_service_with_its_options(tools, calls_of):
    provider = DockerSwarmProvider(overlay_network="games")
    base_url = provider.start_container(
        "echo-env:latest", env_vars={"A": "b"}, replicas=1, cpu_limit=0.5, memory_limit="1g",
        constraints=["node.role==manager"], labels={"team": "red"}, command="serve --fast",
    )  # fmt: skip
    provider.wait_for_ready(base_url)
    echoed = played(base_url)
    provider.stop_container()
    create = next(args for args in calls_of("docker") if args[:2] == ["service", "create"])

    assert echoed == "hello"
    assert create[-3:] == ["echo-env:latest", "serve", "--fast"]
    assert {
        "--replicas=1", "--network=games", "--env=A=b", "--limit-cpu=0.5", "--limit-memory=1g",
        "--constraint=node.role==manager", "--label=team=red",
    } <= set(create)  # fmt: skip
    assert ["swarm", "init"] in calls_of("docker")
    assert ["network", "create", "--driver=overlay", "--attachable", "games"] in calls_of("docker")


def test_swarm_is_not_begun_unasked(tools):
    with pytest.raises(ContainerFault, match="docker swarm init"):
        DockerSwarmProvider(auto_init_swarm=False)


@pytest.mark.parametrize(
    ("keywords", "match"), [({"replica": 1}, "replica: not among"), ({"replicas": 0}, "replicas=0: a service")]
)
def test_swarm_refuses_what_it_does_not_know(tools, keywords, match):
    with pytest.raises(ValueError, match=match):
        DockerSwarmProvider().start_container("echo-env", **keywords)


def test_kubernetes_runs_a_pod_forwards_a_port_to_it_and_deletes_it(tools, calls_of):
    provider = KubernetesProvider(namespace="games", start_timeout_s=30)
    base_url = provider.start_container("echo-env:latest", env_vars={"A": "b"}, image_pull_policy="Never")
    provider.wait_for_ready(base_url)
    echoed = played(base_url)
    provider.stop_container()
    run, wait, forward, delete = calls_of("kubectl")

    assert echoed == "hello"
    assert all(args[0] == "--namespace=games" for args in (run, wait, forward, delete))
    assert {"--image=echo-env:latest", "--restart=Never", "--env=A=b", "--image-pull-policy=Never"} <= set(run)
    assert wait[1:] == ["wait", "--for=condition=Ready", f"pod/{run[2]}", "--timeout=30s"]
    assert delete[1:4] == ["delete", "pod", run[2]]
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{base_url}/health")


def test_a_cluster_that_refuses_raises_kubectls_message(tools):
    (tools / "kubectl.fails").write_text("error: the namespace is full")
    with pytest.raises(ContainerFault, match=r"the namespace is full(?s:.*)kubectl get pods"):
        KubernetesProvider().start_container("echo-env")


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


def test_what_a_program_forgets_to_close_is_stopped_when_it_ends(tools):
    code = (
        "from openenv.envs.echo_env import EchoEnv, EchoAction\n"
        "env = EchoEnv.from_docker_image('echo-env')\n"
        "env.reset(); print(env.base_url)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{ended.stdout.strip()}/health")
