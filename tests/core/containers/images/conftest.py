"""A container engine: the one that answers at DOCKER_HOST, else one that root starts for the tests."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

START_TIMEOUT_S = 30.0
_NETWORK = "172.31.252.1/24"


@pytest.fixture(scope="package")
def engine() -> Iterator[Any]:
    """A client of the engine. DOCKER_HOST names it for commands. Images that the tests make on it are removed."""
    docker = pytest.importorskip("docker", reason="the extra docker is not installed")
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="oe-dockerd-") as folder:
        daemon = None
        if not _answers():
            daemon = _start(Path(folder))
            patch.setenv("DOCKER_HOST", f"unix://{folder}/d.sock")
        client = docker.from_env(timeout=600)
        before = {tag for image in client.images.list() for tag in image.tags}
        try:
            yield client
        finally:
            _remove_images(client, before)
            client.close()
            if daemon is not None:
                daemon.terminate()
                daemon.wait(30)


def _answers() -> bool:
    import docker

    try:
        client = docker.from_env(timeout=5)
        client.ping()
    except docker.errors.DockerException:
        return False
    client.close()
    return True


def _start(folder: Path) -> "subprocess.Popen[bytes]":
    """Start an engine whose data are below `folder`. Skips the test, with the reason, where that cannot be."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("no container engine answers, and only root can start dockerd, if it is installed")
    import docker

    command = ["dockerd", "-H", f"unix://{folder}/d.sock", "--data-root", f"{folder}/data", f"--bip={_NETWORK}"]
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(
            [*command, "--exec-root", f"{folder}/exec", "-p", f"{folder}/d.pid"], stdout=log, stderr=log
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while daemon.poll() is None and time.monotonic() < deadline:
        try:
            client = docker.DockerClient(f"unix://{folder}/d.sock", timeout=5)
            client.ping()
            client.close()
            return daemon
        except docker.errors.DockerException:
            time.sleep(0.05)
    daemon.kill()
    daemon.wait()
    pytest.skip(f"dockerd does not start here: {(folder / 'log').read_text(errors='replace')[-500:]}")


def _remove_images(client: Any, before: set[str]) -> None:
    for image in client.images.list():
        for tag in set(image.tags) - before:
            client.images.remove(tag, force=True)
