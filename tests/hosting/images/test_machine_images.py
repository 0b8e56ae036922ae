"""`openenv build --from-machine` makes images that run on a real engine, with nothing from a registry."""

import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openenv.core.errors import ContainerFault
from openenv.envs.coding_env import CodeAction, CodingEnv
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.hosting.images.machine_image import build_from_machine
from tests.cli.commands import run
from tests.hosting.images.conftest import RUN

pytestmark = pytest.mark.process

HARDENED: dict[str, Any] = {
    "network_mode": "none", "read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges"],
    "init": True, "tmpfs": {"/tmp": "size=64m"},
}  # fmt: skip


@pytest.fixture(scope="module")
def built(engine) -> Callable[[str, str], str]:
    """Build an environment from this machine, once for all tests. Returns the tag."""

    @functools.cache
    def build(environment: str, tag: str) -> str:
        done = run("build", environment, "--from-machine", "--tag", tag)
        assert done.returncode == 0, done.stderr
        print(done.stdout)
        assert f"built {tag}: " in done.stdout
        return tag

    return build


@pytest.fixture
def start(engine, tmp_path: Path):
    """Run an image with all layers of isolation; its server listens on a Unix socket. Returns the base URL."""
    started = []

    def start(tag: str, **options: Any) -> str:
        tmp_path.chmod(0o777)
        shared = {str(tmp_path): {"bind": "/run/openenv", "mode": "rw"}}
        began = time.perf_counter()
        command = ["--host", "0.0.0.0", "--port", "8000", "--host", "unix:/run/openenv/server.sock"]
        started.append(engine.containers.run(tag, command, detach=True, volumes=shared, **{**HARDENED, **options}))
        base_url = f"unix:{tmp_path}/server.sock"
        wait_until_connected(base_url)
        print(f"{tag} started in {time.perf_counter() - began:.2f} s")
        return base_url

    yield start
    for container in started:
        container.remove(force=True)


def wait_until_connected(base_url: str) -> None:
    """Wait for the server's socket; the engine reports no readiness of its own."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with EchoEnv(base_url) as env:
                env.connect()
                return
        except ConnectionError:
            time.sleep(0.02)
    pytest.fail("the server did not answer in 60 s")


def test_echo_is_built_and_played_through_a_socket_with_every_layer_of_isolation(built, start, engine) -> None:
    tag = built("echo", f"oe-test-echo:{RUN}")
    with EchoEnv(start(tag)) as env:
        env.reset()

        assert env.step(EchoAction(message="hello")).observation.echoed_message == "hello"
    assert engine.images.get(tag).attrs["Config"]["User"] == "1000:1000"


def test_openspiel_is_built_with_its_packages_and_played(built, start) -> None:
    with OpenSpielEnv(start(built("openspiel", f"oe-test-openspiel:{RUN}"))) as env:
        result = env.reset(seed=1)
        while not result.done:
            result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))

        assert result.reward in (-1, 1)


def test_coding_is_built_and_runs_programs_in_sandboxes_within_its_container(built, start) -> None:
    with CodingEnv(start(built("coding", f"oe-test-coding:{RUN}"))) as env:
        env.reset()

        assert env.step(CodeAction(code="print(6 * 7)")).observation.stdout == "42\n"
        assert "PermissionError" in env.step(CodeAction(code="open('/proc/1/environ').read()")).observation.stderr


def test_a_folder_made_by_init_is_built_with_its_dependencies_and_without_its_hidden_files(
    built, start, engine, tmp_path: Path
) -> None:
    assert run("init", "tally_env", "--output-dir", str(tmp_path)).returncode == 0
    (tmp_path / "tally_env" / ".env").write_text("TOKEN=secret")
    tag = built(str(tmp_path / "tally_env"), f"oe-test-tally:{RUN}")
    start(tag)
    shown = "import os, tally_env; print(os.listdir(os.path.dirname(tally_env.__file__)))"
    listed = engine.containers.run(tag, ["-c", shown], entrypoint="python", remove=True, **HARDENED).decode()

    assert "client.py" in listed
    assert ".env'" not in listed


def test_an_image_has_nothing_of_the_users_home_and_no_path_of_this_machine(built, engine) -> None:
    tag = built("echo", f"oe-test-echo:{RUN}")
    program = """
import json, os, sys
found = [os.path.join(folder, name) for top in ("/srv", "/opt", "/usr", "/root", "/home", "/tmp", "/etc")
         for folder, _, names in os.walk(top) for name in names]
print(json.dumps({"path": sys.path, "environ": sorted(os.environ), "files": found}))
"""
    inside = json.loads(engine.containers.run(tag, ["-c", program], entrypoint="python", remove=True, **HARDENED))
    written = [path for path in inside["files"] if not path.startswith(("/srv/openenv/", "/usr/"))]

    assert set(written) <= {"/etc/passwd", "/etc/group", "/etc/hostname", "/etc/hosts", "/etc/mtab", "/etc/resolv.conf"}
    assert not [name for name in inside["environ"] if "TOKEN" in name or name == "PYTHONPATH"]
    assert all(path.startswith(("/srv/openenv", "/usr/local")) for path in inside["path"] if path)
    assert not [path for path in inside["files"] if "/pytest/" in path or path.endswith("direct_url.json")]


def test_the_health_check_of_an_image_asks_where_its_server_listens(built, start, engine) -> None:
    tag = built("echo", f"oe-test-echo:{RUN}")
    check = engine.images.get(tag).attrs["Config"]["Healthcheck"]["Test"][1:]
    start(tag)
    (container,) = engine.containers.list(filters={"ancestor": tag})

    assert container.exec_run(check).exit_code == 0
    assert container.exec_run(["python", "-c", "import os; os.remove('/run/openenv/server.sock')"]).exit_code == 0
    assert container.exec_run(check).exit_code == 1


def test_an_image_whose_server_does_not_start_is_an_error_with_its_output(engine, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__main__.py").write_text("import a_module_that_no_machine_has")

    reason = rf"building oe-test-broken:{RUN} failed(?s:.*)a_module_that_no_machine_has"
    with pytest.raises(ContainerFault, match=reason):
        build_from_machine(
            engine, f"oe-test-broken:{RUN}", ["python", "-m", "broken"], requirements=["openenv-rl"],
            folders={"broken": tmp_path / "broken"}, on_line=print,
        )  # fmt: skip


def test_a_server_that_writes_to_its_root_is_refused_because_the_root_is_read_only_in_use(
    engine, tmp_path: Path
) -> None:
    (tmp_path / "writer").mkdir()
    (tmp_path / "writer" / "__main__.py").write_text(
        "open('/written', 'w')\nfrom openenv.envs.echo_env.server.app import main\nmain()\n"
    )

    with pytest.raises(ContainerFault, match=r"does not start in it as user 1000(?s:.*)/written"):
        build_from_machine(
            engine, f"oe-test-writer:{RUN}", ["python", "-m", "writer"], requirements=["openenv-rl"],
            folders={"writer": tmp_path / "writer"}, on_line=print,
        )  # fmt: skip


def test_an_image_is_played_on_its_port_by_the_provider(built) -> None:
    with EchoEnv.from_docker_image(built("echo", f"oe-test-echo:{RUN}")) as env:
        env.reset()

        assert env.step(EchoAction(message="hello")).observation.echoed_message == "hello"


def test_a_dockerfile_of_ones_own_is_built_with_its_arguments(built, engine, tmp_path: Path) -> None:
    built("echo", f"oe-test-echo:{RUN}")
    (tmp_path / "openenv.yaml").write_text("name: mine\n")
    (tmp_path / "Dockerfile").write_text(f"FROM oe-test-echo:{RUN}\nARG COLOUR=red\nLABEL colour=$COLOUR\n")
    done = run("build", str(tmp_path), "--tag", f"oe-test-mine:{RUN}", "--build-arg", "COLOUR=blue")

    assert done.returncode == 0, done.stderr
    assert engine.images.get(f"oe-test-mine:{RUN}").labels["colour"] == "blue"


def test_a_dockerfile_that_fails_is_an_error_that_names_it(engine, tmp_path: Path) -> None:
    (tmp_path / "openenv.yaml").write_text("name: mine\n")
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY absent /\n")
    done = run("build", str(tmp_path), "--tag", f"oe-test-mine2:{RUN}")

    assert done.returncode == 1
    assert f"docker build of {tmp_path}/Dockerfile failed" in done.stderr
    assert "--from-machine" in done.stderr
