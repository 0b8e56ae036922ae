"""`openenv build` builds Dockerfiles on a real engine, and images know whether their server is healthy."""

from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.core.env_server.probes import wait_until
from tests.hosting.images.conftest import RUN

pytestmark = pytest.mark.process

_CHECK = ["python3", "-I", "-S", "/app/openenv/hosting/images/health_check.py"]
_SERVER = ["python3", "-m", "openenv.envs.echo_env.server.app", "--host", "unix:/tmp/server.sock"]


def test_a_dockerfile_of_ones_own_is_built_with_its_arguments(engine, tmp_path: Path) -> None:
    (tmp_path / "openenv.yaml").write_text("name: mine\n")
    (tmp_path / "Dockerfile").write_text("FROM echo-env\nARG COLOUR=red\nLABEL colour=$COLOUR\n")
    done = run("build", str(tmp_path), "--tag", f"oe-test-mine:{RUN}", "--build-arg", "COLOUR=blue")

    assert done.returncode == 0, done.stderr
    assert engine.images.get(f"oe-test-mine:{RUN}").labels["colour"] == "blue"


def test_a_dockerfile_that_fails_is_an_error_that_names_it(engine, tmp_path: Path) -> None:
    (tmp_path / "openenv.yaml").write_text("name: mine\n")
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY absent /\n")
    done = run("build", str(tmp_path), "--tag", f"oe-test-mine2:{RUN}")

    assert done.returncode == 1
    assert f"docker build of {tmp_path}/Dockerfile failed" in done.stderr
    assert "docker save" in done.stderr


def test_the_health_check_asks_where_the_server_of_its_container_listens(engine) -> None:
    container = engine.containers.run("echo-env", _SERVER, detach=True, network_mode="none", tmpfs={"/tmp": ""})
    try:
        wait_until(lambda: container.exec_run(_CHECK).exit_code == 0, timeout_s=60)
        container.exec_run(["python3", "-c", "import os; os.remove('/tmp/server.sock')"])

        assert container.exec_run(_CHECK).exit_code == 1
    finally:
        container.remove(force=True)
