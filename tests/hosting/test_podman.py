"""Podman runs the same images with the same isolation, through its API that is compatible with Docker's."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import DockerException

from openenv.core.errors import ContainerFault
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.hosting.runtime import ContainerLimits, PodmanProvider
from tests.core.env_server.probes import wait_until
from tests.hosting.test_docker import FILL_A_MEBIBYTE, ISOLATED, attempts

pytestmark = pytest.mark.process

ECHO = "localhost/echo-env:latest"


def _client(url: str) -> Any:
    """A client of Podman's service; None before it answers."""
    try:
        client = docker.DockerClient(url, timeout=300)
        return client if client.ping() else None
    except DockerException:
        return None


@pytest.fixture(scope="module")
def podman(engine: Any) -> Iterator[str]:
    """The URL of a service of Podman that has the image of the echo environment."""
    if os.geteuid() != 0 or shutil.which("podman") is None or shutil.which("runc") is None:
        pytest.skip("a service of Podman is started by root alone, with podman and runc")
    init = shutil.which("catatonit") or shutil.which("docker-init")
    if init is None:
        pytest.skip("Podman needs catatonit for its first process")
    folder = Path(tempfile.mkdtemp(prefix="podman-"))  # Podman refuses paths of more than 50 characters
    url = f"unix://{folder}/p.sock"
    (folder / "containers.conf").write_text(f'[engine]\ninit_path = "{init}"\n')
    command = ["podman", "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--runtime", "runc"]
    command += ["--cgroup-manager", "cgroupfs", "system", "service", "--time=0", url]
    environment = {**os.environ, "CONTAINERS_CONF": f"{folder}/containers.conf"}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment, cwd=folder) as service:
        try:
            wait_until(lambda: _client(url) is not None, timeout_s=60)
            client = _client(url)
            client.images.load(engine.images.get("echo-env").save(named=True))
            yield url
            client.close()
        finally:
            service.terminate()
    subprocess.run(["umount", folder / "root" / "overlay"], check=False)  # it is mounted on itself
    shutil.rmtree(folder)


@pytest.fixture
def provider(podman: str) -> Iterator[PodmanProvider]:
    with PodmanProvider(podman) as made:
        yield made
        made.stop_container()


@pytest.mark.parametrize("network", [pytest.param("bridge", marks=pytest.mark.slow), "none"])
def test_the_echo_environment_is_played_in_its_image(podman, network):
    with EchoEnv.from_docker_image(ECHO, PodmanProvider(podman), network=network) as env:
        env.reset()

        assert env.step(EchoAction(message="hello")).observation.echoed_message == "hello"


def test_a_container_of_podman_is_isolated_by_default(provider):
    provider.start_container(ECHO, network="none")
    found = attempts(provider)

    assert found == ISOLATED
    assert {layer for layer, state in provider.layers.items() if state != "on"} == {"landlock"}


def test_the_limits_of_a_container_of_podman_hold(provider):
    limits = ContainerLimits(memory_bytes=96 << 20, processes=24, tmp_bytes=1 << 20)
    provider.start_container(ECHO, network="none", limits=limits)
    fill = provider.exec(["python3", "-c", FILL_A_MEBIBYTE])
    memory = provider.exec(["python3", "-c", "bytearray(b'x') * (200 << 20)"])

    assert "No space left" in fill.output
    assert memory.exit_code == 137


def test_a_container_of_podman_is_removed(podman, provider):
    provider.start_container(ECHO, network="none")
    client = _client(podman)
    before = client.containers.list(all=True)
    provider.stop_container()

    assert len(before) == 1
    assert client.containers.list(all=True) == []


def test_a_runtime_whose_arguments_podman_does_not_give_is_refused(provider):
    with pytest.raises(ContainerFault, match=r"Podman does not say how it calls its runtimes, such as runsc"):
        provider.start_container(ECHO, runtime="runsc")


def test_a_service_that_does_not_answer_is_an_error_with_the_remedy(tmp_path):
    with pytest.raises(ContainerFault, match=r"Podman: connecting failed(?s:.*)podman system service"):
        PodmanProvider(f"unix://{tmp_path}/nothing.sock")
