"""`openenv serve` runs the server of an environment."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from openenv.core.errors import CapacityReached
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.hosting.server_process import wait_until_healthy
from tests.cli.commands import OPENENV

pytestmark = pytest.mark.process


def test_serve_serves_until_interrupted(port):
    process = subprocess.Popen([*OPENENV, "serve", "echo", "--port", str(port)], stderr=subprocess.PIPE)
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=30)
        with EchoEnv(base_url=f"http://127.0.0.1:{port}") as env:
            env.reset()
            assert env.step(EchoAction(message="hello")).reward == pytest.approx(0.5)
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)

    assert b"Traceback" not in errors


def test_serve_takes_the_limits_of_a_server(port, tmp_path):
    options = ["--max-sessions", "1", "--record-dir", str(tmp_path / "recordings")]
    process = subprocess.Popen([*OPENENV, "serve", "echo", "--port", str(port), *options])
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=30)
        with EchoEnv(base_url=f"http://127.0.0.1:{port}") as env:
            env.reset()
            with pytest.raises(CapacityReached, match="1/1"):
                EchoEnv(base_url=env.base_url).reset()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)

    assert len(list((tmp_path / "recordings").glob("*.jsonl"))) == 1


def test_serve_shares_the_sessions_of_an_authors_own_application_among_workers(port, tmp_path):
    (tmp_path / "my_env.py").write_text(
        "from openenv.core.env_server import create_app\n"
        "from openenv.envs.echo_env.server.environment import EchoEnvironment\n"
        "app = create_app(EchoEnvironment)\n"
    )
    command = [*OPENENV, "serve", "my_env:app", "--port", str(port), "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path)
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=30)
        with EchoEnv(base_url=f"http://127.0.0.1:{port}") as first, EchoEnv(base_url=first.base_url) as second:
            for env in (first, second):
                env.reset()
                assert env.step(EchoAction(message="hello")).reward == pytest.approx(0.5)
            workers = {env.session_id.partition("-")[0] for env in (first, second)}
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)

    assert workers == {"w0", "w1"}
    assert (process.returncode, b"Traceback" in errors) == (130, False)


@pytest.mark.parametrize("target", ["my_env:app", "echo"])
def test_serve_logs_as_its_options_say(port, tmp_path, target):
    (tmp_path / "my_env.py").write_text("from openenv.envs.echo_env.server.app import app\n")
    options = ["--port", str(port), "--log-level", "info", "--log-format", "json"]
    process = subprocess.Popen([*OPENENV, "serve", target, *options], stderr=subprocess.PIPE, cwd=tmp_path)
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=30)
        with EchoEnv(base_url=f"http://127.0.0.1:{port}") as env:
            env.reset()
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)

    logged = [json.loads(line)["message"] for line in errors.splitlines() if line.startswith(b"{")]
    assert any(message.startswith("session ") and "opened" in message for message in logged)


def test_serve_passes_other_options_to_the_environments_server(port):
    process = subprocess.Popen([*OPENENV, "serve", "openspiel", "--game", "kuhn_poker", "--port", str(port)])
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=30)
        body = urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/reset", method="POST")).read()
        assert json.loads(body)["metadata"]["game_name"] == "kuhn_poker"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)


def test_serve_starts_again_when_a_file_changes(port, tmp_path):
    rules = (
        "from openenv.core.env_server import create_app\n"
        "from openenv.envs.echo_env.server.environment import EchoEnvironment\n"
        "app = create_app(EchoEnvironment, env_name='{}')\n"
    )
    (tmp_path / "my_env.py").write_text(rules.format("before"))
    command = [*OPENENV, "serve", "my_env:app", "-p", str(port), "--reload"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path, text=True)
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=30)
        (tmp_path / "my_env.py").write_text("this is no program")
        assert process.stderr is not None
        seen = next(line for line in process.stderr if "ended with code" in line)
        (tmp_path / "my_env.py").write_text(rules.format("after"))
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=30)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/openapi.json") as response:
            described = json.load(response)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)

    assert "starts again after a change" in seen
    assert "after" in described["info"]["title"]
    assert process.returncode == 143


@pytest.mark.finding("a server has a first page, loads nothing from elsewhere, and names a used port")
def test_a_port_in_use_is_named_before_anything_is_announced():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        served = subprocess.run([*OPENENV, "serve", "echo", "--port", str(port)], capture_output=True, timeout=60)

    assert served.returncode == 1
    expected = f"openenv: [Errno 98] cannot listen on 127.0.0.1:{port}: Address already in use. Give another port\n"
    assert served.stderr.decode() == expected


@pytest.mark.finding("a server has a first page, loads nothing from elsewhere, and names a used port")
@pytest.mark.parametrize(
    ("served", "reason"),
    [
        (["openspiel", "--game", "blackjak"], "Did you mean 'blackjack'?"),
        (["no_database.py:app"], "no database"),
    ],
    ids=["a wrong option", "an application that cannot start"],
)
def test_a_server_that_cannot_serve_is_not_announced(port, tmp_path, served, reason):
    (tmp_path / "no_database.py").write_text(
        "from contextlib import asynccontextmanager\n"
        "from fastapi import FastAPI\n"
        "@asynccontextmanager\n"
        "async def lifespan(app):\n"
        "    raise RuntimeError('no database')\n"
        "    yield\n"
        "app = FastAPI(lifespan=lifespan)\n"
    )
    command = [*OPENENV, "serve", *served, "--port", str(port)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)

    assert ended.returncode in (2, 3)
    assert reason in ended.stderr
    assert "serving" not in ended.stderr
    assert "usage" not in ended.stderr


@pytest.mark.finding("a server has a first page, loads nothing from elsewhere, and names a used port")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_program_that_serves_announces_where_once_it_answers(port, tmp_path, workers):
    program = tmp_path / "serving.py"
    program.write_text(
        "from openenv import serve\n"
        "if __name__ == '__main__':\n"
        f"    serve('openenv.envs.echo_env.server.app:app', port={port}, workers={workers})\n"
    )
    process = subprocess.Popen([sys.executable, program], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        with EchoEnv(base_url=f"http://127.0.0.1:{port}") as env:
            env.reset()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)

    pages = "(page at /web, documentation at /docs)"
    assert line == f"serving echo_env at http://127.0.0.1:{port} {pages}; stop it with Ctrl-C\n"
